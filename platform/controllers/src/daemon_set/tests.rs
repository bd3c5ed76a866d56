use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::plan::plan;
use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

fn set(strategy: Value) -> DaemonSet {
    serde_json::from_value(json!({
        "metadata": { "name": "agent", "namespace": "default", "uid": "set", "generation": 4 },
        "spec": {
            "selector": { "matchLabels": { "app": "agent" } },
            "template": { "metadata": { "labels": { "app": "agent" } }, "spec": {
                "containers": [{ "name": "main" }], "nodeSelector": { "os": "linux" },
            } },
            "updateStrategy": strategy,
        },
    }))
    .unwrap()
}

fn node(name: &str, taint: Option<(&str, &str)>) -> Arc<Node> {
    let taints = taint.map(|(key, effect)| json!([{ "key": key, "effect": effect }]));
    let value =
        json!({ "metadata": { "name": name, "labels": { "os": "linux" } }, "spec": { "taints": taints } });
    Arc::new(serde_json::from_value(value).unwrap())
}

fn nodes(names: &[&str]) -> Vec<Arc<Node>> {
    names.iter().map(|name| node(name, None)).collect()
}

/// A pod for a node, of a revision. Its name is `node-revision`.
fn pod(node: &str, hash: &str, ready: bool) -> Arc<Pod> {
    let mut pod = pod_of(&set(Value::Null), node, hash);
    pod.metadata.name = Some(format!("{node}-{hash}"));
    pod.metadata.uid = pod.metadata.name.clone();
    let ready = if ready { "True" } else { "False" };
    let condition = json!({ "type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z" });
    pod.status = serde_json::from_value(json!({ "phase": "Running", "conditions": [condition] })).unwrap();
    Arc::new(pod)
}

fn names(pods: &[Arc<Pod>]) -> Vec<String> {
    pods.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect()
}

#[test]
fn every_node_that_fits_gets_a_pod_and_others_lose_theirs() {
    let mut other = (*node("windows", None)).clone();
    other.metadata.labels = None;
    let nodes = [
        node("a", None),
        node("b", Some(("node.kubernetes.io/unschedulable", "NoSchedule"))),
        node("c", Some(("special", "NoSchedule"))),
        node("d", Some(("special", "NoExecute"))),
        node("e", Some(("special", "NoSchedule"))),
        Arc::new(other),
    ];
    let pods = [pod("a", "1", true), pod("d", "1", true), pod("e", "1", true), pod("windows", "1", true)];
    let plan = plan(&set(Value::Null), &nodes, &pods, "1", now());
    assert_eq!(plan.create, ["b"], "what keeps new pods away does not remove those that are there");
    assert_eq!(names(&plan.delete), ["d-1", "windows-1"]);
    let status = plan.status;
    assert_eq!((status.desired_number_scheduled, status.current_number_scheduled), (2, 1));
    assert_eq!((status.number_misscheduled, status.number_ready, status.number_unavailable), (3, 1, Some(1)));
    assert_eq!(status.observed_generation, Some(4));
}

#[test]
fn pod_names_its_node_and_tolerates_what_daemons_do() {
    let pod = pod_of(&set(Value::Null), "a", "1");
    assert_eq!(target(&pod), Some("a"));
    let tolerations = pod.spec.unwrap().tolerations.unwrap();
    let keys: Vec<_> =
        tolerations.iter().map(|t| t.key.as_deref().unwrap().rsplit('/').next().unwrap()).collect();
    let expected =
        ["not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"];
    assert_eq!(keys, expected);
}

#[test]
fn update_replaces_so_many_at_a_time_and_broken_ones_first() {
    let rolling =
        |most: Value| json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": most } });
    let nodes = nodes(&["a", "b", "c", "d"]);
    let pods = [pod("a", "2", true), pod("b", "1", false), pod("c", "1", true), pod("d", "1", true)];
    let one = plan(&set(rolling(json!(1))), &nodes, &pods, "2", now());
    assert_eq!((names(&one.delete), one.create.len()), (vec!["b-1".to_owned()], 0));
    let half = plan(&set(rolling(json!("50%"))), &nodes, &pods, "2", now());
    assert_eq!(names(&half.delete), ["b-1", "c-1"]);
    let waiting = plan(&set(rolling(json!(1))), &nodes, &[pod("a", "2", false), pods[2].clone()], "2", now());
    assert_eq!((names(&waiting.delete), waiting.create.len()), (vec![], 2));
    let manual = plan(&set(json!({ "type": "OnDelete" })), &nodes, &pods, "2", now());
    assert_eq!((manual.delete.len(), manual.status.updated_number_scheduled), (0, Some(1)));
}

#[test]
fn surge_brings_the_next_pod_before_the_one_goes() {
    let strategy =
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } });
    let (set, nodes) = (set(strategy), nodes(&["a", "b"]));
    let (old_a, old_b) = (pod("a", "1", true), pod("b", "1", true));
    let first = plan(&set, &nodes, &[old_a.clone(), old_b.clone()], "2", now());
    assert_eq!((first.create.as_slice(), first.delete.len()), (["a".to_owned()].as_slice(), 0));
    let waiting = plan(&set, &nodes, &[old_a.clone(), pod("a", "2", false), old_b.clone()], "2", now());
    assert_eq!((waiting.create.len(), waiting.delete.len()), (0, 0));
    let over = plan(&set, &nodes, &[old_a, pod("a", "2", true), old_b], "2", now());
    assert_eq!(names(&over.delete), ["a-1"]);
}
