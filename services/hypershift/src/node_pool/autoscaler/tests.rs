use rstest::rstest;
use serde_json::json;

use super::*;

const NODE: Room = Room { processor: 2000, memory: 8000, pods: 10_000 };
const BOUNDS: Bounds = Bounds { least: 1, most: 4, unneeded: Some(Duration::from_secs(600)) };

fn pod(processor: i128) -> Room {
    Room { processor, memory: 1000, pods: 1000 }
}

fn decided(current: usize, load: Load) -> Decision {
    let load = Load { node: NODE, settled: true, ..load };
    BOUNDS.decide(current, &load, Timestamp::from_second(10_000).unwrap())
}

fn idle(names: &[(&str, i64)]) -> BTreeMap<String, Timestamp> {
    names
        .iter()
        .map(|(name, for_)| ((*name).to_owned(), Timestamp::from_second(10_000 - for_).unwrap()))
        .collect()
}

#[rstest]
#[case(1, &[], Decision::Keep(None))]
#[case(1, &[500], Decision::Grow(2))]
#[case(1, &[500, 500, 500, 500], Decision::Grow(2))] // they share one
#[case(1, &[1500, 1500], Decision::Grow(3))]
#[case(1, &[1500, 1500, 1500, 1500, 1500], Decision::Grow(4))] // not beyond the bound
#[case(4, &[500], Decision::Keep(None))]
#[case(1, &[9000], Decision::Keep(None))] // no node would hold it
#[case(0, &[], Decision::Grow(1))] // below the bound
#[case(7, &[], Decision::Grow(4))] // beyond it
fn a_pool_grows_by_as_many_nodes_as_waiting_pods_fill(
    #[case] current: usize,
    #[case] waiting: &[i128],
    #[case] expected: Decision,
) {
    let waiting = waiting.iter().map(|processor| pod(*processor)).collect();
    assert_eq!(decided(current, Load { waiting, ..Load::default() }), expected);
}

#[rstest]
#[case(2, &[("a", 600)], Decision::Shrink("a".to_owned()))]
#[case(2, &[("a", 500), ("b", 550)], Decision::Keep(Some(Duration::from_secs(50))))]
#[case(1, &[("a", 600)], Decision::Keep(None))] // the last one stays
fn a_pool_shrinks_by_a_node_that_was_idle_for_long(
    #[case] current: usize,
    #[case] names: &[(&str, i64)],
    #[case] expected: Decision,
) {
    assert_eq!(decided(current, Load { idle: idle(names), ..Load::default() }), expected);
}

#[test]
fn nothing_is_decided_while_nodes_are_on_their_way() {
    let load = Load { waiting: vec![pod(500)], node: NODE, idle: idle(&[("a", 900)]), settled: false };
    assert_eq!(BOUNDS.decide(2, &load, Timestamp::from_second(10_000).unwrap()), Decision::Keep(None));
}

#[test]
fn only_pods_that_room_would_help_are_waited_for() {
    let said = |message: &str| -> Pod {
        let condition = json!({ "type": "PodScheduled", "status": "False", "message": message });
        serde_json::from_value(json!({ "status": { "conditions": [condition] } })).unwrap()
    };
    assert!(waits_for_room(&said("0/3 nodes are available: 3 Insufficient cpu.")));
    assert!(!waits_for_room(&said("0/3 nodes are available: 3 node(s) had untolerated taint(s).")));
    assert!(!waits_for_room(&Pod::default()));
    let requests = json!({ "requests": { "cpu": "1500m", "memory": "1Ki" } });
    let container = json!({ "name": "c", "resources": requests });
    let pod: Pod = serde_json::from_value(json!({ "spec": { "containers": [container] } })).unwrap();
    assert_eq!(Room::of_pod(&pod), Room { processor: 1500, memory: 1_024_000, pods: 1000 });
}
