use k8s_openapi::api::apps::v1::ReplicaSetSpec;
use k8s_openapi::api::core::v1::{PodCondition, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;

const NOW: &str = "2026-01-01T00:01:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn set(replicas: i32, min_ready_seconds: i32) -> ReplicaSet {
    ReplicaSet {
        metadata: ObjectMeta { name: Some("web".to_owned()), generation: Some(3), ..ObjectMeta::default() },
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: Some(min_ready_seconds),
            ..ReplicaSetSpec::default()
        }),
        status: None,
    }
}

/// A pod that became ready so many seconds ago, or is not.
fn pod(name: &str, node: Option<&str>, phase: &str, ready_for: Option<i64>) -> Arc<Pod> {
    let ready = ready_for.map(|seconds| PodCondition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(Time(now() - jiff::SignedDuration::from_secs(seconds))),
        ..PodCondition::default()
    });
    Arc::new(Pod {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: Some(PodSpec { node_name: node.map(ToOwned::to_owned), ..PodSpec::default() }),
        status: Some(PodStatus {
            phase: Some(phase.to_owned()),
            conditions: Some(ready.into_iter().collect()),
            ..PodStatus::default()
        }),
    })
}

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
}

#[test]
fn finished_and_ending_pods_are_replaced() {
    let mut ending = (*pod("ending", Some("n"), "Running", Some(9))).clone();
    ending.metadata.deletion_timestamp = Some(Time(now()));
    let pods = [
        pod("done", Some("n"), "Succeeded", None),
        Arc::new(ending),
        pod("good", Some("n"), "Running", Some(9)),
    ];
    let plan = plan(&set(3, 0), &pods, now());
    assert_eq!((plan.create, plan.delete.len()), (2, 0));
    assert_eq!((plan.status.replicas, plan.status.terminating_replicas), (1, Some(1)));
}

#[test]
fn pods_that_are_missed_least_go_first() {
    let pods = [
        pod("ready-crowded", Some("a"), "Running", Some(60)),
        pod("ready-crowded-too", Some("a"), "Running", Some(60)),
        pod("ready-alone", Some("b"), "Running", Some(60)),
        pod("not-ready", Some("d"), "Running", None),
        pod("pending", Some("c"), "Pending", None),
        pod("unscheduled", None, "Pending", None),
    ];
    let order = names(&plan(&set(0, 0), &pods, now()).delete).join(" ");
    assert_eq!(order, "unscheduled pending not-ready ready-crowded ready-crowded-too ready-alone");
    assert_eq!(names(&plan(&set(5, 0), &pods, now()).delete), ["unscheduled"]);
}

#[test]
fn pod_is_available_once_it_was_ready_for_long_enough() {
    let pods = [
        pod("long", Some("n"), "Running", Some(30)),
        pod("short", Some("n"), "Running", Some(4)),
        pod("shorter", Some("n"), "Running", Some(1)),
    ];
    let plan = plan(&set(3, 10), &pods, now());
    assert_eq!((plan.status.ready_replicas, plan.status.available_replicas), (Some(3), Some(1)));
    assert_eq!(plan.look_again, Some(Duration::from_secs(6)));
    assert_eq!(plan.status.observed_generation, Some(3));
}

#[test]
fn set_on_its_way_out_leaves_its_pods_to_the_garbage_collector() {
    let mut set = set(2, 0);
    set.metadata.deletion_timestamp = Some(Time(now()));
    let plan = plan(&set, &[], now());
    assert_eq!((plan.create, plan.delete.len()), (0, 0));
}
