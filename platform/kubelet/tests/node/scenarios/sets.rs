//! Pods with names and storage of their own.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use serde_json::json;

use super::World;
use crate::support::{is_ready, shell};

/// What makes a pod this one: its uid and the identities of its containers.
fn identity(pod: &Pod) -> (String, Option<String>, i32) {
    let container = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    (pod.uid().unwrap(), container.container_id.clone(), container.restart_count)
}

pub(super) async fn keeps(world: &mut World) {
    let mut container = shell("hostname >> /data/who; exec sleep 600");
    container["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    container["readinessProbe"] = json!({"exec": {"command": ["test", "-s", "/data/who"]}});
    let spec = json!({"containers": [container], "terminationGracePeriodSeconds": 1});
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "local", "resources": {"requests": {"storage": "1Mi"}}}});
    world
        .apply(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
            "replicas": 3, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": world.pod(spec)},
            "volumeClaimTemplates": [claim]}}))
        .await;
    world.printed(&["rollout", "status", "statefulset/db", "--timeout=120s"]).await;
    let names = |pods: &[Pod]| pods.iter().map(Pod::name_any).collect::<Vec<_>>();
    let before = world.pods_with("app=db").await;
    assert_eq!(names(&before), ["db-0", "db-1", "db-2"]);
    // One after the other: each was ready before the next was made.
    let made: Vec<_> = before.iter().map(|pod| pod.creation_timestamp()).collect();
    assert!(made.is_sorted(), "{made:?}");
    let claims = world.api::<PersistentVolumeClaim>();
    let volume_of = async |name: &str| claims.get(name).await.unwrap().spec.unwrap().volume_name.unwrap();
    let volume = volume_of("data-db-1").await;

    world.nodes[0].kill();
    // One is deleted while nobody is there to end it.
    world.printed(&["delete", "pod", "db-2", "--wait=false"]).await;
    world.nodes[0].start().await;
    let replaced = |old: &Pod| {
        let old = old.uid();
        move |pod: &Pod| pod.uid() != old && is_ready(pod)
    };
    world.until_pod("db-2", replaced(&before[2])).await;
    let after = world.pods_with("app=db").await;
    assert_eq!(identity(&after[0]), identity(&before[0]));
    assert_eq!(identity(&after[1]), identity(&before[1]));

    // Without kubectl's own waiting: it takes a successor that comes quickly for the one that is to go.
    world.printed(&["delete", "pod", "db-1", "--wait=false"]).await;
    world.until_pod("db-1", replaced(&before[1])).await;
    assert_eq!(volume_of("data-db-1").await, volume);
    for (name, times) in [("db-0", 1), ("db-1", 2), ("db-2", 2)] {
        let who = world.printed(&["exec", name, "--", "cat", "/data/who"]).await;
        assert_eq!(who, format!("{name}\n").repeat(times), "the runs of {name}");
    }
    assert_eq!(names(&world.pods_with("app=db").await), ["db-0", "db-1", "db-2"]);
}
