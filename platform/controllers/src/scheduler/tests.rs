use k8s_openapi::api::core::v1::{NodeCondition, NodeSpec, NodeStatus, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::*;

fn node(name: &str) -> Node {
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("disk".to_owned(), "fast".to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec::default()),
        status: Some(NodeStatus {
            conditions: Some(vec![NodeCondition {
                type_: "Ready".to_owned(),
                status: "True".to_owned(),
                ..NodeCondition::default()
            }]),
            allocatable: Some([("pods".to_owned(), Quantity("3".to_owned()))].into()),
            ..NodeStatus::default()
        }),
    }
}

fn with(mut node: Node, change: impl FnOnce(&mut Node)) -> Node {
    change(&mut node);
    node
}

fn tainted(name: &str, effect: &str) -> Node {
    with(node(name), |node| {
        node.spec.as_mut().unwrap().taints = Some(vec![Taint {
            key: "special".to_owned(),
            value: Some("yes".to_owned()),
            effect: effect.to_owned(),
            time_added: None,
        }]);
    })
}

fn pod() -> Pod {
    Pod { spec: Some(PodSpec::default()), ..Pod::default() }
}

fn choose_from(pod: &Pod, nodes: &[(Node, usize)]) -> Result<String, String> {
    let candidates: Vec<_> = nodes.iter().map(|(node, load)| Candidate { node, load: *load }).collect();
    choose(pod, &candidates)
}

#[test]
fn emptiest_node_that_fits_is_chosen() {
    let nodes = [(node("a"), 2), (node("b"), 1), (node("c"), 1), (tainted("d", "NoSchedule"), 0)];
    assert_eq!(choose_from(&pod(), &nodes), Ok("b".to_owned()));
}

#[test]
fn every_obstacle_is_named() {
    let unready = with(node("b"), |node| node.status.as_mut().unwrap().conditions = None);
    let cordoned = with(node("c"), |node| node.spec.as_mut().unwrap().unschedulable = Some(true));
    let slow = with(node("e"), |node| node.metadata.labels = None);
    let mut picky = pod();
    picky.spec.as_mut().unwrap().node_selector = Some([("disk".to_owned(), "fast".to_owned())].into());
    let nodes = [(node("a"), 3), (unready, 0), (cordoned, 0), (tainted("d", "NoExecute"), 0), (slow, 0)];
    assert_eq!(
        choose_from(&picky, &nodes).unwrap_err(),
        "0/5 nodes are available: 1 node(s) were not ready, 1 node(s) were unschedulable, \
         1 node(s) had untolerated taint {special: yes}, 1 node(s) didn't match Pod's node selector, \
         1 Too many pods."
    );
    assert_eq!(choose_from(&pod(), &[]).unwrap_err(), "no nodes available to schedule pods");
}

#[test]
fn tolerations_match_by_key_value_and_effect() {
    let taint = tainted("d", "NoSchedule").spec.unwrap().taints.unwrap().remove(0);
    let toleration = |key: &str, operator: &str, value: &str, effect: &str| Toleration {
        key: Some(key.to_owned()),
        operator: Some(operator.to_owned()),
        value: Some(value.to_owned()),
        effect: Some(effect.to_owned()),
        toleration_seconds: None,
    };
    for (toleration, expected) in [
        (toleration("special", "Equal", "yes", "NoSchedule"), true),
        (toleration("special", "Equal", "yes", ""), true),
        (toleration("special", "Exists", "", ""), true),
        (toleration("", "Exists", "", ""), true),
        (toleration("", "Equal", "", ""), false),
        (toleration("special", "Equal", "no", ""), false),
        (toleration("special", "Exists", "", "NoExecute"), false),
        (toleration("other", "Exists", "", ""), false),
    ] {
        assert_eq!(tolerates(&toleration, &taint), expected, "{toleration:?}");
    }
}

#[test]
fn places_are_counted_once_however_often_they_are_heard_of() {
    let mut state = State::default();
    let key = |name: &str| ObjectKey::namespaced("default", name);
    state.place(&key("a"), "one");
    state.place(&key("a"), "one");
    state.place(&key("b"), "one");
    state.place(&key("b"), "two");
    assert_eq!(state.load, BTreeMap::from([("one".to_owned(), 1), ("two".to_owned(), 1)]));
    assert!(state.leave(&key("a")));
    assert!(!state.leave(&key("a")));
    assert_eq!(state.load, BTreeMap::from([("two".to_owned(), 1)]));
}

#[test]
fn reason_is_written_once() {
    let now = Timestamp::UNIX_EPOCH;
    let mut pending = pod();
    let patch = unschedulable(&pending, "no room", now).unwrap();
    let status = serde_json::from_value(patch["status"].clone()).unwrap();
    pending.status = Some(status);
    assert_eq!(unschedulable(&pending, "no room", now), None);
    assert!(unschedulable(&pending, "no nodes", now).is_some());
}
