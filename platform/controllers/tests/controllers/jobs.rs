//! Jobs, cron jobs and daemon sets.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::{Cluster, NAMESPACE, eventually, gone, node_of, on_both};

on_both! {
    job_counts_every_success_even_of_pods_that_are_deleted_at_once;
    job_that_fails_too_often_says_so_and_its_pods_are_let_go_with_it;
    cron_job_starts_its_run_once_and_knows_when_it_succeeded;
    daemon_set_has_a_pod_on_every_node_and_keeps_its_history;
}

fn template() -> Value {
    json!({
        "metadata": { "labels": { "app": "work" } },
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "busybox:1" }] },
    })
}

/// Says of all pods of a label that run what a kubelet would when they end. Answers how many did.
async fn end_pods(cluster: &Cluster, label: &str, phase: &str) -> usize {
    let mut ended = 0;
    for pod in cluster.pods(label).await {
        let finished =
            matches!(pod.status.as_ref().and_then(|s| s.phase.as_deref()), Some("Succeeded" | "Failed"));
        if node_of(&pod).is_some() && !finished {
            let status = Patch::Merge(json!({ "status": { "phase": phase } }));
            let (api, name) = (cluster.api::<Pod>(), pod.name_any());
            // It may have been deleted meanwhile.
            ended += usize::from(api.patch_status(&name, &PatchParams::default(), &status).await.is_ok());
        }
    }
    ended
}

async fn job_is(cluster: &Cluster, name: &str, type_: &str) -> Job {
    eventually(&format!("job {name} is {type_}"), || async {
        let job = cluster.api::<Job>().get(name).await.unwrap();
        let status = job.status.clone().unwrap_or_default();
        let found = status.conditions.iter().flatten().any(|c| c.type_ == type_ && c.status == "True");
        if found { Ok(job) } else { Err(format!("{status:?}")) }
    })
    .await
}

async fn job_counts_every_success_even_of_pods_that_are_deleted_at_once(cluster: Cluster) {
    cluster.node("one").await;
    let job = json!({
        "metadata": { "name": "work" },
        "spec": { "completions": 20, "parallelism": 5, "template": template(), "ttlSecondsAfterFinished": 600 },
    });
    cluster.create::<Job>(job).await;
    let job = eventually("all work is done", || async {
        // Whoever deletes a pod the moment it ended takes nothing away.
        end_pods(&cluster, "app=work", "Succeeded").await;
        for pod in cluster.pods("app=work").await {
            let ended =
                pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Succeeded"));
            if ended {
                let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::background() };
                let _ = cluster.api::<Pod>().delete(&pod.name_any(), &now).await;
            }
        }
        let job = cluster.api::<Job>().get("work").await.unwrap();
        let status = job.status.clone().unwrap_or_default();
        let done = status.conditions.iter().flatten().any(|condition| condition.type_ == "Complete");
        if done { Ok(job) } else { Err(format!("{status:?}")) }
    })
    .await;
    let status = job.status.unwrap();
    assert_eq!((status.succeeded, status.failed, status.active), (Some(20), None, None));
    assert!(status.completion_time.is_some());
    eventually("people are told", || async {
        let events = cluster.api::<Event>().list(&ListParams::default()).await.unwrap();
        let found: Vec<_> = events.items.into_iter().filter_map(|event| event.reason).collect();
        if found.iter().any(|reason| reason == "Completed") { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    cluster.at_rest().await;

    // Its time is over.
    cluster.clock.advance(Duration::from_secs(601));
    let label = Patch::Merge(json!({ "metadata": { "labels": { "looked": "at" } } }));
    cluster.api::<Job>().patch("work", &PatchParams::default(), &label).await.unwrap();
    gone(&cluster.api::<Job>(), "work").await;
    assert!(cluster.controllers.statuses().iter().all(|status| status.failing == 0));
    cluster.stop().await;
}

async fn job_that_fails_too_often_says_so_and_its_pods_are_let_go_with_it(cluster: Cluster) {
    cluster.node("one").await;
    let job =
        json!({ "metadata": { "name": "work" }, "spec": { "backoffLimit": 0, "template": template() } });
    cluster.create::<Job>(job).await;
    cluster.bound_pods("app=work", 1).await;
    end_pods(&cluster, "app=work", "Failed").await;
    let job = job_is(&cluster, "work", "Failed").await;
    let conditions = job.status.as_ref().unwrap().conditions.clone().unwrap();
    let reasons: Vec<_> =
        conditions.iter().map(|c| (c.type_.as_str(), c.reason.as_deref().unwrap())).collect();
    let reason = "BackoffLimitExceeded";
    assert_eq!(reasons, [("FailureTarget", reason), ("Failed", reason)]);
    assert_eq!(job.status.unwrap().failed, Some(1));

    cluster.api::<Job>().delete("work", &DeleteParams::background()).await.unwrap();
    eventually("no pod is held", || async {
        cluster.confirm_ended_pods(NAMESPACE).await;
        let pods = cluster.api::<Pod>().list(&ListParams::default()).await.unwrap();
        if pods.items.is_empty() { Ok(()) } else { Err(format!("{} pods", pods.items.len())) }
    })
    .await;
    cluster.stop().await;
}

async fn cron_job_starts_its_run_once_and_knows_when_it_succeeded(cluster: Cluster) {
    cluster.node("one").await;
    let cron = json!({
        "metadata": { "name": "tidy" },
        "spec": { "schedule": "0 * * * *", "jobTemplate": { "spec": { "template": template() } } },
    });
    cluster.create::<CronJob>(cron).await;
    cluster.at_rest().await;
    assert_eq!(cluster.api::<Job>().list(&ListParams::default()).await.unwrap().items.len(), 0);
    cluster.clock.advance(Duration::from_secs(3600));
    let label = Patch::Merge(json!({ "metadata": { "labels": { "looked": "at" } } }));
    cluster.api::<CronJob>().patch("tidy", &PatchParams::default(), &label).await.unwrap();
    cluster.bound_pods("app=work", 1).await;
    cluster.at_rest().await;
    let cron = cluster.api::<CronJob>().get("tidy").await.unwrap();
    let jobs = cluster.api::<Job>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(jobs.len(), 1);
    let due = cron.status.unwrap().last_schedule_time.unwrap().0;
    assert_eq!(jobs[0].name_any(), format!("tidy-{}", due.as_second() / 60));
    end_pods(&cluster, "app=work", "Succeeded").await;
    eventually("the success is known", || async {
        let status = cluster.api::<CronJob>().get("tidy").await.unwrap().status.unwrap();
        match (&status.last_successful_time, &status.active) {
            (Some(_), None) => Ok(()),
            _ => Err(format!("{status:?}")),
        }
    })
    .await;
    cluster.stop().await;
}

async fn daemon_set_has_a_pod_on_every_node_and_keeps_its_history(cluster: Cluster) {
    cluster.node("one").await;
    cluster.node("two").await;
    let set = json!({
        "metadata": { "name": "agent" },
        "spec": {
            "selector": { "matchLabels": { "app": "agent" } },
            "template": {
                "metadata": { "labels": { "app": "agent" } },
                "spec": { "containers": [{ "name": "main", "image": "busybox:1" }] },
            },
        },
    });
    cluster.create::<DaemonSet>(set).await;
    let pods = cluster.bound_pods("app=agent", 2).await;
    let mut nodes: Vec<_> = pods.iter().filter_map(node_of).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["one", "two"]);
    let status_is = async |ready: i32, updated: i32| {
        eventually(&format!("{ready} are ready, {updated} new"), || async {
            cluster.confirm_ended_pods(NAMESPACE).await;
            for pod in cluster.pods("app=agent").await.iter().filter(|pod| node_of(pod).is_some()) {
                let running = pod.status.as_ref().is_some_and(|s| s.phase.as_deref() == Some("Running"));
                if !running {
                    cluster.pod_runs(&pod.name_any(), "10.132.0.9").await;
                }
            }
            let set = cluster.api::<DaemonSet>().get("agent").await.unwrap();
            let status = set.status.clone().unwrap_or_default();
            let is_seen = status.observed_generation == set.metadata.generation;
            let as_wanted = (status.number_ready, status.updated_number_scheduled) == (ready, Some(updated));
            if is_seen && as_wanted { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
    };
    status_is(2, 2).await;
    cluster.node("three").await;
    status_is(3, 3).await;

    let revisions = || async {
        let all = cluster.api::<ControllerRevision>().list(&ListParams::default()).await.unwrap();
        let mut numbers: Vec<_> = all.items.iter().map(|revision| revision.revision).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(revisions().await, [1]);
    let image = |image: &str| {
        let containers = json!([{ "name": "main", "image": image }]);
        Patch::Merge(json!({ "spec": { "template": { "spec": { "containers": containers } } } }))
    };
    let sets = cluster.api::<DaemonSet>();
    sets.patch("agent", &PatchParams::default(), &image("busybox:2")).await.unwrap();
    status_is(3, 3).await;
    assert_eq!(revisions().await, [1, 2]);
    // Going back makes the old template the newest.
    sets.patch("agent", &PatchParams::default(), &image("busybox:1")).await.unwrap();
    status_is(3, 3).await;
    assert_eq!(revisions().await, [2, 3]);
    cluster.at_rest().await;
    assert!(cluster.controllers.statuses().iter().all(|status| status.failing == 0));
    cluster.stop().await;
}
