//! Work that is done when it has been done often enough.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;

use super::World;
use crate::support::{shell, until, wait_for};

/// So many need no signal to go on, and the next so many get it while there is no kubelet.
const FREE: usize = 7;
const ALONE: usize = 2;
const PARALLEL: usize = 5;

pub(super) async fn survives(world: &mut World) {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "runs"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "resources": {"requests": {"storage": "1Mi"}}}});
    world.apply(claim).await;
    let mut container = shell(&format!(
        "echo $JOB_COMPLETION_INDEX >> /runs/begun
         signal=go; if test $JOB_COMPLETION_INDEX -lt {alone}; then signal=alone; fi
         if test $JOB_COMPLETION_INDEX -ge {FREE}; then while ! test -e /runs/$signal; do sleep 0.05; done; fi
         echo $JOB_COMPLETION_INDEX >> /runs/done",
        alone = FREE + ALONE
    ));
    container["volumeMounts"] = json!([{"name": "runs", "mountPath": "/runs"}]);
    let spec = json!({"restartPolicy": "Never", "containers": [container],
        "volumes": [{"name": "runs", "persistentVolumeClaim": {"claimName": "runs"}}]});
    world
        .apply(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"}, "spec": {
            "completions": 20, "parallelism": PARALLEL, "backoffLimit": 0, "completionMode": "Indexed",
            "template": {"spec": world.pod(spec)}}}))
        .await;
    wait_for(world.api::<PersistentVolumeClaim>(), "runs", |claim: Option<&PersistentVolumeClaim>| {
        claim.and_then(|claim| claim.spec.as_ref()?.volume_name.as_ref()).is_some()
    })
    .await;
    let volume = world.api::<PersistentVolumeClaim>().get("runs").await.unwrap().spec.unwrap().volume_name;
    let folder = world.plane.volume(&volume.unwrap());
    let lines = |name: &str| -> Vec<usize> {
        let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let mut numbers: Vec<_> = text.lines().map(|line| line.parse().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    };
    // Some are done, and five are in the middle of it: some end without a kubelet, the others with the next one.
    until(|| async { lines("begun").len() == FREE + PARALLEL && lines("done").len() == FREE }).await;
    world.nodes[0].kill();
    std::fs::write(folder.join("alone"), "").unwrap();
    until(|| async { lines("done").len() == FREE + ALONE }).await;
    world.nodes[0].start().await;
    // The job goes on only when the next kubelet has told of those that ended alone; what takes their places is begun.
    until(|| async { lines("begun").len() >= FREE + PARALLEL + ALONE }).await;
    std::fs::write(folder.join("go"), "").unwrap();

    world.printed(&["wait", "--for=condition=Complete", "job/work", "--timeout=120s"]).await;
    let all: Vec<_> = (0..20).collect();
    assert_eq!(lines("begun"), all, "each was begun once");
    assert_eq!(lines("done"), all, "each was done once");
    let status = world.api::<Job>().get("work").await.unwrap().status.unwrap();
    assert_eq!((status.succeeded, status.failed.unwrap_or(0)), (Some(20), 0), "{status:?}");
    assert_eq!(status.completed_indexes.as_deref(), Some("0-19"));
}
