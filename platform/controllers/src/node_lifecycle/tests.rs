use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::api::core::v1::{NodeSpec, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use super::*;

const GRACE: Duration = Duration::from_secs(50);

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn after(seconds: u64) -> Timestamp {
    start() + Duration::from_secs(seconds)
}

fn node(ready: &str) -> Node {
    Node {
        metadata: ObjectMeta { creation_timestamp: Some(Time(start())), ..ObjectMeta::default() },
        spec: Some(NodeSpec {
            taints: Some(vec![Taint {
                key: "special".to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            }]),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            conditions: Some(vec![NodeCondition {
                type_: "Ready".to_owned(),
                status: ready.to_owned(),
                ..NodeCondition::default()
            }]),
            ..NodeStatus::default()
        }),
    }
}

fn lease(renewed: Timestamp) -> Lease {
    let spec = LeaseSpec { renew_time: Some(MicroTime(renewed)), ..LeaseSpec::default() };
    Lease { spec: Some(spec), ..Lease::default() }
}

fn keys(taints: &[Taint]) -> Vec<String> {
    taints
        .iter()
        .map(|taint| format!("{}:{}", taint.key.trim_start_matches("node.kubernetes.io/"), taint.effect))
        .collect()
}

#[test]
fn node_that_reports_is_left_alone_until_its_grace_would_be_over() {
    let plan = plan(&node("True"), Some(&lease(after(100))), GRACE, after(110));
    assert_eq!(plan, Plan { lost: None, taints: None, next: Next::After(Duration::from_secs(40)) });
}

#[test]
fn silent_node_is_unknown_and_unreachable_and_recovers_by_a_word() {
    let silent = plan(&node("True"), Some(&lease(after(100))), GRACE, after(150));
    let conditions = silent.lost.unwrap();
    assert_eq!((conditions[0].status.as_str(), silent.next), ("Unknown", Next::Done));
    let tainted = silent.taints.unwrap();
    assert_eq!(keys(&tainted), ["special:NoSchedule", "unreachable:NoSchedule", "unreachable:NoExecute"]);

    let mut lost = node("Unknown");
    lost.spec.as_mut().unwrap().taints = Some(tainted.clone());
    let again = plan(&lost, Some(&lease(after(100))), GRACE, after(200));
    assert_eq!((again.lost, again.taints), (None, None));

    let mut back = node("True");
    back.spec.as_mut().unwrap().taints = Some(tainted);
    let recovered = plan(&back, Some(&lease(after(200))), GRACE, after(201));
    assert_eq!(keys(&recovered.taints.unwrap()), ["special:NoSchedule"]);
}

#[test]
fn new_node_is_not_ready_but_has_time_to_say_so() {
    let mut fresh = node("True");
    fresh.status = None;
    let plan = plan(&fresh, None, GRACE, after(10));
    assert_eq!(plan.lost, None);
    assert_eq!(
        keys(&plan.taints.unwrap()),
        ["special:NoSchedule", "not-ready:NoSchedule", "not-ready:NoExecute"]
    );
    assert_eq!(plan.next, Next::After(Duration::from_secs(40)));
}
