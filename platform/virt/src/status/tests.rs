use std::collections::BTreeMap;

use pilothouse_virt_api::Resources;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn order(strategy: Strategy) -> Order {
    Order {
        strategy,
        resources: Resources { cores: 2, memory: "8Gi".to_owned(), guaranteed: false },
        user_data: Some("user-data".to_owned()),
        node_selector: BTreeMap::new(),
        further_networks: Vec::new(),
    }
}

fn running() -> Value {
    json!({
        "metadata": { "uid": "pod-uid" },
        "spec": { "nodeName": "here", "containers": [] },
        "status": {
            "phase": "Running", "podIP": "10.200.0.9", "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

#[rstest]
#[case(Strategy::Always, None, false, "Starting", "Pending")]
#[case(Strategy::Always, Some(json!({})), true, "Starting", "Scheduling")]
#[case(Strategy::Always, Some(json!({ "spec": { "nodeName": "here", "containers": [] } })), true, "Starting", "Scheduled")]
#[case(Strategy::Always, Some(running()), true, "Running", "Running")]
#[case(Strategy::Always, Some(json!({ "status": { "conditions": [
    { "type": "PodScheduled", "status": "False", "message": "no node is large enough" },
] } })), true, "ErrorUnschedulable", "Scheduling")]
#[case(Strategy::Always, Some(json!({ "status": { "phase": "Running", "containerStatuses": [{
    "name": "kubelet", "image": "", "imageID": "", "ready": false, "restartCount": 3,
    "state": { "waiting": { "reason": "CrashLoopBackOff" } },
}] } })), true, "CrashLoopBackOff", "Running")]
#[case(Strategy::Halted, None, false, "Stopped", "Pending")]
#[case(Strategy::Halted, Some(running()), true, "Stopping", "Running")]
fn a_machine_says_what_its_process_does(
    #[case] strategy: Strategy,
    #[case] pod: Option<Value>,
    #[case] has_instance: bool,
    #[case] printable: &str,
    #[case] phase: &str,
) {
    let (order, pod) = (order(strategy), pod.map(|pod| serde_json::from_value::<Pod>(pod).unwrap()));
    let seen = Seen {
        order: &order,
        generation: Some(1),
        going: false,
        has_instance,
        pod: pod.as_ref(),
        has_remains: pod.is_some(),
        now: Timestamp::UNIX_EPOCH,
    };
    let status = machine(&VirtualMachineStatus::default(), &seen);
    assert_eq!(status.printable_status, printable);
    let of_instance = instance(&VirtualMachineInstanceStatus::default(), &seen);
    assert_eq!(of_instance.phase, phase);
    // Looking again, later, changes nothing.
    let later = Seen { now: Timestamp::from_second(60).unwrap(), ..seen };
    assert_eq!(machine(&status, &later), status);
    assert_eq!(instance(&of_instance, &later), of_instance);
}

#[test]
fn a_running_machine_says_where_it_is() {
    let (order, pod) = (order(Strategy::Always), serde_json::from_value::<Pod>(running()).unwrap());
    let seen = Seen {
        order: &order,
        generation: None,
        going: false,
        has_instance: true,
        pod: Some(&pod),
        has_remains: true,
        now: Timestamp::UNIX_EPOCH,
    };
    let status = instance(&VirtualMachineInstanceStatus::default(), &seen);
    assert_eq!((status.node_name.as_str(), status.interfaces[0].ip_address.as_str()), ("here", "10.200.0.9"));
    assert_eq!(status.active_pods["pod-uid"], "here");
    assert!(machine(&VirtualMachineStatus::default(), &seen).ready);
}
