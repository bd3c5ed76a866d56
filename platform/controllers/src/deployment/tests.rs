use std::time::Duration;

use k8s_openapi::api::apps::v1::{
    DeploymentSpec, DeploymentStrategy, ReplicaSetStatus, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn template(image: &str) -> PodTemplateSpec {
    let container =
        Container { name: "main".to_owned(), image: Some(image.to_owned()), ..Container::default() };
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some([("app".to_owned(), "web".to_owned())].into()),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
    }
}

fn deployment(image: &str, replicas: i32, surge: i32, unavailable: i32) -> Deployment {
    Deployment {
        metadata: ObjectMeta { name: Some("web".to_owned()), generation: Some(1), ..ObjectMeta::default() },
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            template: template(image),
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: Some(IntOrString::Int(surge)),
                    max_unavailable: Some(IntOrString::Int(unavailable)),
                }),
            }),
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// A set as the deployment of that image makes it.
fn set(image: &str, replicas: i32, available: i32, revision: i64) -> Arc<ReplicaSet> {
    let mut set = set_of(&deployment(image, 1, 1, 0), replicas, revision);
    // As if it had been made for the size that the test is about.
    set.metadata.annotations.as_mut().unwrap().retain(|name, _| name == REVISION);
    set.status = Some(ReplicaSetStatus {
        replicas,
        ready_replicas: Some(available),
        available_replicas: Some(available),
        ..ReplicaSetStatus::default()
    });
    Arc::new(set)
}

/// What happens next, as text: `new=3`, `v1=2`.
fn step(deployment: &Deployment, sets: &[Arc<ReplicaSet>], old_pods: usize) -> String {
    let plan = plan(deployment, sets, old_pods, now());
    let created = plan.create.iter().map(|set| format!("create={}", desired_of_set(set)));
    let image = |name: &str| {
        let set = sets.iter().find(|set| set.metadata.name.as_deref() == Some(name)).unwrap();
        let spec = set.spec.as_ref().unwrap().template.as_ref().unwrap().spec.as_ref().unwrap();
        spec.containers[0].image.clone().unwrap()
    };
    let scaled = plan.scale.iter().map(|scale| format!("{}={}", image(&scale.set), scale.replicas));
    created.chain(scaled).collect::<Vec<_>>().join(" ")
}

#[test]
fn rollout_keeps_within_surge_and_availability() {
    for (wanted, sets, expected) in [
        // A first rollout is complete at once.
        (deployment("v1", 3, 1, 0), vec![], "create=3"),
        (deployment("v1", 3, 1, 0), vec![set("v1", 3, 3, 1)], ""),
        // Scaling.
        (deployment("v1", 5, 1, 0), vec![set("v1", 3, 3, 1)], "v1=5"),
        (deployment("v1", 1, 1, 0), vec![set("v1", 3, 3, 1)], "v1=1"),
        // One more at a time, then one less.
        (deployment("v2", 3, 1, 0), vec![set("v1", 3, 3, 1)], "create=1"),
        (deployment("v2", 3, 1, 0), vec![set("v1", 3, 3, 1), set("v2", 1, 0, 2)], ""),
        (deployment("v2", 3, 1, 0), vec![set("v1", 3, 3, 1), set("v2", 1, 1, 2)], "v1=2"),
        (deployment("v2", 3, 1, 0), vec![set("v1", 2, 2, 1), set("v2", 1, 1, 2)], "v2=2"),
        (deployment("v2", 3, 1, 0), vec![set("v1", 1, 1, 1), set("v2", 3, 3, 2)], "v1=0"),
        // One less first, where no more are allowed.
        (deployment("v2", 3, 0, 1), vec![set("v1", 3, 3, 1)], "create=0"),
        (deployment("v2", 3, 0, 1), vec![set("v1", 3, 3, 1), set("v2", 0, 0, 2)], "v1=2"),
        // Pods that do not work are nobody's loss, and go before good ones.
        (deployment("v3", 3, 1, 0), vec![set("v1", 3, 3, 1), set("v2", 1, 0, 2), set("v3", 0, 0, 3)], "v2=0"),
        // Back again: the old set is the new one.
        (deployment("v1", 3, 1, 0), vec![set("v1", 0, 0, 1), set("v2", 3, 3, 2)], "v1=1"),
    ] {
        let sizes: Vec<_> = sets.iter().map(|set| desired_of_set(set)).collect();
        assert_eq!(step(&wanted, &sets, 0), expected, "{sizes:?}");
    }
}

#[test]
fn recreate_waits_until_the_last_old_pod_has_ended() {
    let mut wanted = deployment("v2", 2, 0, 0);
    wanted.spec.as_mut().unwrap().strategy =
        Some(DeploymentStrategy { type_: Some("Recreate".to_owned()), rolling_update: None });
    assert_eq!(step(&wanted, &[set("v1", 2, 2, 1)], 2), "v1=0");
    assert_eq!(step(&wanted, &[set("v1", 0, 0, 1)], 1), "");
    assert_eq!(step(&wanted, &[set("v1", 0, 0, 1)], 0), "create=2");
}

#[test]
fn shares_are_rounded_up_for_surge_and_down_for_unavailability() {
    let mut wanted = deployment("v1", 3, 0, 0);
    wanted.spec.as_mut().unwrap().strategy = None;
    assert_eq!(rollout::bounds(&wanted), rollout::Bounds { surge: 1, unavailable: 0 });
    assert_eq!(rollout::bounds(&deployment("v1", 3, 0, 0)), rollout::Bounds { surge: 0, unavailable: 1 });
}

#[test]
fn revisions_count_up_and_a_reused_set_becomes_the_newest() {
    let fresh = plan(&deployment("v3", 1, 1, 0), &[set("v1", 0, 0, 1), set("v2", 1, 1, 2)], 0, now());
    assert_eq!(revision(&fresh.create.unwrap().metadata), 3);
    let back = plan(&deployment("v1", 1, 1, 0), &[set("v1", 0, 0, 1), set("v2", 1, 1, 2)], 0, now());
    assert_eq!(back.renumber.unwrap().1, 3);
    assert_eq!(back.revision, Some(3));
}

#[test]
fn history_is_kept_as_long_as_was_asked_for() {
    let mut wanted = deployment("v4", 1, 1, 0);
    wanted.spec.as_mut().unwrap().revision_history_limit = Some(1);
    let sets = [set("v1", 0, 0, 1), set("v2", 1, 1, 2), set("v3", 0, 0, 3), set("v4", 1, 1, 4)];
    let forgotten = plan(&wanted, &sets, 0, now()).forget;
    assert_eq!(forgotten.len(), 1);
    assert_eq!(Some(&forgotten[0].0), sets[0].metadata.name.as_ref());
}

#[test]
fn finished_rollout_changes_nothing_more() {
    let mut wanted = deployment("v1", 2, 1, 0);
    let sets = [set("v1", 2, 2, 1)];
    let first = plan(&wanted, &sets, 0, now());
    wanted.status = Some(first.status);
    wanted.metadata.annotations = Some([(REVISION.to_owned(), "1".to_owned())].into());
    let second = plan(&wanted, &sets, 0, now() + Duration::from_secs(60));
    assert_eq!(Some(&second.status), wanted.status.as_ref());
    assert_eq!((second.scale.len(), second.revision, second.next), (0, None, Next::Done));
}

#[test]
fn rollout_that_stands_still_is_reported_after_its_deadline() {
    let mut wanted = deployment("v1", 2, 1, 0);
    wanted.spec.as_mut().unwrap().progress_deadline_seconds = Some(60);
    let sets = [set("v1", 2, 1, 1)];
    let first = plan(&wanted, &sets, 0, now());
    assert_eq!(first.next, Next::After(Duration::from_secs(60)));
    wanted.status = Some(first.status);
    let waiting = plan(&wanted, &sets, 0, now() + Duration::from_secs(20));
    assert_eq!(waiting.next, Next::After(Duration::from_secs(40)));
    let late = plan(&wanted, &sets, 0, now() + Duration::from_secs(60));
    let conditions = late.status.conditions.unwrap();
    let progressing = conditions.iter().find(|condition| condition.type_ == "Progressing").unwrap();
    assert_eq!(progressing.reason.as_deref(), Some("ProgressDeadlineExceeded"));
    assert_eq!(progressing.status, "False");
}

/// A set that was made when the deployment had so many pods.
fn sized(set: Arc<ReplicaSet>, desired: i32, most: i32) -> Arc<ReplicaSet> {
    let mut set = (*set).clone();
    let annotations = set.metadata.annotations.as_mut().unwrap();
    annotations.insert(DESIRED.to_owned(), desired.to_string());
    annotations.insert(MOST.to_owned(), most.to_string());
    Arc::new(set)
}

#[test]
fn size_that_changes_during_a_rollout_is_shared_out() {
    let sets = [sized(set("v1", 8, 8, 1), 10, 13), sized(set("v2", 5, 0, 2), 10, 13)];
    // From ten to thirty, three more allowed: twenty more pods, in the proportion of eight to five.
    assert_eq!(step(&deployment("v2", 30, 3, 2), &sets, 0), "v1=20 v2=13");
    assert_eq!(step(&deployment("v2", 5, 3, 2), &sets, 0), "v1=5 v2=3");
    // Alone, a set takes all of it, and its note of the size is brought up to date.
    assert_eq!(step(&deployment("v1", 7, 1, 0), &[sized(set("v1", 7, 7, 1), 5, 6)], 0), "v1=7");
    assert_eq!(step(&deployment("v1", 7, 1, 0), &[sized(set("v1", 7, 7, 1), 7, 8)], 0), "");
}

#[test]
fn pause_and_resumption_are_reported() {
    let mut wanted = deployment("v2", 2, 1, 0);
    let sets = [set("v1", 2, 2, 1)];
    wanted.spec.as_mut().unwrap().paused = Some(true);
    let paused = plan(&wanted, &sets, 0, now());
    let progressing = |plan: &Plan| {
        let conditions = plan.status.conditions.clone().unwrap();
        let found = conditions.into_iter().find(|condition| condition.type_ == "Progressing").unwrap();
        (found.status, found.reason.unwrap())
    };
    assert_eq!(progressing(&paused), ("Unknown".to_owned(), "DeploymentPaused".to_owned()));
    assert_eq!((paused.create, paused.scale.len()), (None, 0));
    wanted.status = Some(paused.status);
    wanted.spec.as_mut().unwrap().paused = Some(false);
    let resumed = plan(&wanted, &sets, 0, now());
    assert_eq!(progressing(&resumed), ("Unknown".to_owned(), "DeploymentResumed".to_owned()));
    assert!(resumed.create.is_some());
}

#[test]
fn pods_that_cannot_be_made_are_reported() {
    let mut failing = (*set("v1", 2, 0, 1)).clone();
    let condition = serde_json::from_value(json!({
        "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota",
    }));
    failing.status.as_mut().unwrap().conditions = Some(vec![condition.unwrap()]);
    let status = plan(&deployment("v1", 2, 1, 0), &[Arc::new(failing)], 0, now()).status;
    let found = status.conditions.unwrap().into_iter().find(|condition| condition.type_ == "ReplicaFailure");
    assert_eq!(found.unwrap().message.as_deref(), Some("exceeded quota"));
    let status = plan(&deployment("v1", 2, 1, 0), &[set("v1", 2, 0, 1)], 0, now()).status;
    assert!(status.conditions.unwrap().iter().all(|condition| condition.type_ != "ReplicaFailure"));
}
