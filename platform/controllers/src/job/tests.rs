use jiff::Timestamp;
use k8s_openapi::api::batch::v1::JobStatus;
use serde_json::{Value, json};

use super::plan::plan;
use super::*;

const NOW: &str = "2026-01-01T00:10:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn job(spec: Value) -> Job {
    let mut job: Job = serde_json::from_value(json!({
        "metadata": { "name": "sums", "namespace": "default", "uid": "job" },
        "spec": { "template": { "spec": { "containers": [{ "name": "main" }], "restartPolicy": "Never" } } },
    }))
    .unwrap();
    let mut whole = serde_json::to_value(job.spec.as_ref().unwrap()).unwrap();
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    job.spec = Some(serde_json::from_value(whole).unwrap());
    job
}

/// A pod of the job, held. Those that ended did so so many seconds ago.
fn pod(uid: &str, phase: &str, index: Option<i32>, seconds_ago: i64) -> Arc<Pod> {
    let ended = now() - SignedDuration::from_secs(seconds_ago);
    let terminated = matches!(phase, "Succeeded" | "Failed").then(|| {
        json!({ "terminated": { "exitCode": if phase == "Failed" { 3 } else { 0 }, "finishedAt": ended } })
    });
    let annotations = index.map(|index| json!({ INDEX: index.to_string(), FAILURES: "0" }));
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {
                "name": uid, "uid": uid, "namespace": "default", "finalizers": [TRACKING],
                "annotations": annotations, "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": { "containers": [] },
            "status": { "phase": phase, "containerStatuses": [{
                "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": terminated,
            }] },
        }))
        .unwrap(),
    )
}

fn released(pod: &Arc<Pod>) -> Arc<Pod> {
    let mut pod = (**pod).clone();
    pod.metadata.finalizers = None;
    Arc::new(pod)
}

/// What the next pass would see if only the status had been written.
fn after(job: &Job, status: &JobStatus) -> Job {
    Job { status: Some(status.clone()), ..job.clone() }
}

fn types(status: &JobStatus) -> Vec<(String, String)> {
    let all = status.conditions.iter().flatten();
    all.map(|condition| (condition.type_.clone(), condition.reason.clone().unwrap_or_default())).collect()
}

fn condition(type_: &str, reason: &str) -> (String, String) {
    (type_.to_owned(), reason.to_owned())
}

#[test]
fn pod_that_ended_is_counted_once_wherever_the_controller_is_killed() {
    let first = job(json!({ "completions": 2, "parallelism": 1 }));
    let done = pod("a", "Succeeded", None, 5);
    let pass = plan(&first, std::slice::from_ref(&done), now());
    let uncounted = pass.status.uncounted_terminated_pods.clone().unwrap();
    assert_eq!((uncounted.succeeded, pass.status.succeeded), (Some(vec!["a".to_owned()]), None));
    assert_eq!((pass.release.len(), pass.create.len()), (1, 1));

    // Killed before the finalizer went: nothing new is counted, and it is released again.
    let second = after(&first, &pass.status);
    let again = plan(&second, std::slice::from_ref(&done), now());
    assert_eq!(again.status.uncounted_terminated_pods, pass.status.uncounted_terminated_pods);
    assert_eq!((again.release.len(), again.create.len()), (1, 1));

    // The finalizer is gone, or the pod itself: now it is a number, once.
    for pods in [vec![released(&done)], vec![]] {
        let counted = plan(&second, &pods, now());
        assert_eq!(counted.status.succeeded, Some(1), "{pods:?}");
        assert_eq!(counted.status.uncounted_terminated_pods, Some(Default::default()));
        assert_eq!((counted.create.len(), counted.release.len()), (1, 0));
        let rest = plan(&after(&first, &counted.status), &pods, now());
        assert_eq!(rest.status.succeeded, Some(1));
    }
}

#[test]
fn job_is_complete_when_all_work_is_done_and_counted() {
    let job = job(json!({ "completions": 2, "parallelism": 2 }));
    let pods = [pod("a", "Succeeded", None, 5), pod("b", "Succeeded", None, 5)];
    let pass = plan(&job, &pods, now());
    assert_eq!(types(&pass.status), [condition("SuccessCriteriaMet", "CompletionsReached")]);
    assert_eq!((pass.create.len(), pass.events.len()), (0, 0));
    let pods = pods.each_ref().map(released);
    let end = plan(&after(&job, &pass.status), &pods, now());
    assert_eq!(types(&end.status)[1], condition("Complete", "CompletionsReached"));
    assert_eq!((end.status.succeeded, end.status.active), (Some(2), None));
    assert_eq!(end.status.completion_time.map(|time| time.0), Some(now()));
    assert_eq!(end.events[0].1, "Completed");
}

#[test]
fn failures_are_retried_ever_more_slowly_until_there_were_too_many() {
    let job = job(json!({ "completions": 1, "parallelism": 1, "backoffLimit": 2 }));
    let failed = [pod("a", "Failed", None, 15), pod("b", "Failed", None, 15)];
    // The second retry comes twenty seconds after the second failure.
    let waiting = plan(&job, &failed, now());
    assert_eq!((waiting.create.len(), waiting.look_again), (0, Some(Duration::from_secs(5))));
    let later = plan(&job, &failed, now() + SignedDuration::from_secs(5));
    assert_eq!(later.create.len(), 1);

    let running = pod("d", "Running", None, 0);
    let mut all = failed.to_vec();
    all.extend([pod("c", "Failed", None, 1), running]);
    let over = plan(&job, &all, now());
    assert_eq!(types(&over.status), [condition("FailureTarget", "BackoffLimitExceeded")]);
    assert_eq!((over.delete.len(), over.create.len()), (1, 0));
    // What is stopped has failed too, and the job has only when nothing is left.
    let gone = plan(&after(&job, &over.status), &[], now());
    assert_eq!(types(&gone.status)[1], condition("Failed", "BackoffLimitExceeded"));
    assert_eq!(gone.status.failed, Some(4));
    assert_eq!((gone.events[0].0, gone.events[0].1.as_str()), (Kind::Warning, "BackoffLimitExceeded"));
}

#[test]
fn indexes_are_worked_off_in_order_and_each_only_once() {
    let job = job(json!({ "completions": 5, "parallelism": 3, "completionMode": "Indexed" }));
    let pods = [
        pod("a", "Succeeded", Some(0), 5),
        pod("b", "Running", Some(1), 0),
        pod("b2", "Running", Some(1), 0),
        pod("c", "Running", Some(9), 0),
    ];
    let pass = plan(&job, &pods, now());
    let orders: Vec<_> = pass.create.iter().map(|order| order.index.unwrap()).collect();
    assert_eq!(orders, [2, 3]);
    let mut deleted: Vec<_> = pass.delete.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect();
    deleted.sort();
    assert_eq!(deleted.len(), 2, "{deleted:?}");
    assert_eq!(deleted[1], "c");
    assert_eq!(pass.status.completed_indexes.as_deref(), Some("0"));
    assert_eq!(pass.status.active, Some(3));

    let made = pods::pod_of(&job, pass.create[0]);
    assert_eq!(made.metadata.generate_name.as_deref(), Some("sums-2-"));
    let spec = made.spec.unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("sums-2"));
    assert_eq!(spec.containers[0].env.as_ref().unwrap()[0].name, "JOB_COMPLETION_INDEX");
    assert_eq!(made.metadata.labels.unwrap()[INDEX], "2");
}

#[test]
fn index_fails_on_its_own_and_its_last_pod_is_kept_until_it_is_replaced() {
    let spec = json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
        "backoffLimit": 100,
    });
    let job = job(spec);
    let pods = [pod("a", "Succeeded", Some(0), 60), pod("b", "Failed", Some(1), 60)];
    let pass = plan(&job, &pods, now());
    assert_eq!((pass.create[0].index, pass.create[0].failures), (Some(1), Some(1)));
    assert_eq!(pass.release.len(), 1, "how often the index failed is known from its pod alone");
    let mut second = (*pod("c", "Failed", Some(1), 60)).clone();
    second.metadata.annotations.as_mut().unwrap().insert(FAILURES.to_owned(), "1".to_owned());
    let pods = [pods[0].clone(), pods[1].clone(), Arc::new(second)];
    let over = plan(&after(&job, &pass.status), &pods, now());
    assert_eq!(over.status.failed_indexes.as_deref(), Some("1"));
    assert_eq!((over.create.len(), over.release.len()), (0, 3));
    let end = plan(&after(&job, &over.status), &pods.each_ref().map(released), now());
    assert_eq!(types(&end.status).last(), Some(&condition("Failed", "FailedIndexes")));
}

#[test]
fn rules_say_what_a_failure_means() {
    let rules = |action: &str| {
        let codes = json!({ "operator": "In", "values": [3] });
        json!({ "completions": 1, "podFailurePolicy": { "rules": [{ "action": action, "onExitCodes": codes }] } })
    };
    let pods = [pod("a", "Failed", None, 60)];
    let ignored = plan(&job(rules("Ignore")), &pods, now());
    assert_eq!(ignored.status.uncounted_terminated_pods, Some(Default::default()));
    assert_eq!((ignored.create.len(), ignored.release.len()), (1, 1));
    let failed = plan(&job(rules("FailJob")), &pods, now());
    assert_eq!(types(&failed.status), [condition("FailureTarget", "PodFailurePolicy")]);
    let message = failed.status.conditions.unwrap()[0].message.clone().unwrap();
    assert_eq!(
        message,
        "Container main for pod default/a failed with exit code 3 matching FailJob rule at index 0"
    );
}

#[test]
fn success_policy_ends_a_job_early() {
    let spec = json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed",
        "successPolicy": { "rules": [{ "succeededIndexes": "0", "succeededCount": 1 }] },
    });
    let pods = [pod("a", "Succeeded", Some(0), 5), pod("b", "Running", Some(1), 0)];
    let pass = plan(&job(spec), &pods, now());
    assert_eq!(types(&pass.status), [condition("SuccessCriteriaMet", "SuccessPolicy")]);
    assert_eq!((pass.delete.len(), pass.create.len()), (1, 0));
}

#[test]
fn suspended_job_stops_its_pods_and_begins_anew() {
    let mut job = job(json!({ "completions": 1, "suspend": true, "activeDeadlineSeconds": 60 }));
    let stopped = plan(&job, &[pod("a", "Running", None, 0)], now());
    assert_eq!(types(&stopped.status), [condition("Suspended", "JobSuspended")]);
    assert_eq!((stopped.delete.len(), stopped.status.active), (1, None));
    job = after(&job, &stopped.status);
    job.spec.as_mut().unwrap().suspend = Some(false);
    let resumed = plan(&job, &[], now());
    assert_eq!(types(&resumed.status), [condition("Suspended", "JobResumed")]);
    assert_eq!(resumed.create.len(), 1);
    assert_eq!(resumed.look_again, Some(Duration::from_secs(60)));
    let late = plan(&after(&job, &resumed.status), &[], now() + SignedDuration::from_secs(60));
    assert_eq!(types(&late.status)[1], condition("FailureTarget", "DeadlineExceeded"));
}
