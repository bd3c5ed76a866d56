//! Pods of nobody that some owner selects, and pods that their owner selects no longer.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use kube::Resource;
use kube::api::{Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::{Cluster, eventually, on_both};

on_both! {
    every_kind_of_owner_takes_pods_of_nobody_and_lets_go_what_it_no_longer_selects;
}

async fn every_kind_of_owner_takes_pods_of_nobody_and_lets_go_what_it_no_longer_selects(cluster: Cluster) {
    cluster.node("one").await;
    let spec = |app: &str, more: Value| {
        let mut spec = json!({
            "selector": { "matchLabels": { "app": app } },
            "template": { "metadata": { "labels": { "app": app } }, "spec": containers("Always") },
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    // First the pods, so that nobody makes one before it has heard of these.
    for (name, app, policy) in [
        ("stray", "old", "Always"),
        ("set-0", "set", "Always"),
        ("everywhere-x", "everywhere", "Always"),
        ("work-x", "work", "Never"),
    ] {
        cluster
            .create::<Pod>(json!({
                "metadata": { "name": name, "labels": { "app": app } },
                "spec": containers(policy),
            }))
            .await;
        cluster.bound_pods(&format!("app={app}"), 1).await;
    }
    cluster.at_rest().await;

    let mut old = spec("old", json!({ "replicas": 1 }));
    old["selector"] = json!({ "app": "old" });
    cluster.owns::<ReplicationController>("old", old, "stray").await;
    // Otherwise a pod of another template would be replaced at once.
    let set =
        spec("set", json!({ "replicas": 1, "serviceName": "set", "updateStrategy": { "type": "OnDelete" } }));
    cluster.owns::<StatefulSet>("set", set, "set-0").await;
    cluster
        .owns::<DaemonSet>(
            "everywhere",
            spec("everywhere", json!({ "updateStrategy": { "type": "OnDelete" } })),
            "everywhere-x",
        )
        .await;
    let mut work = spec("work", json!({ "manualSelector": true }));
    work["template"]["spec"] = containers("Never");
    cluster.owns::<Job>("work", work, "work-x").await;
    cluster.at_rest().await;
    for app in ["old", "set", "everywhere", "work"] {
        assert_eq!(
            cluster.pods(&format!("app={app}")).await.len(),
            1,
            "{app}: it is the one that was wanted"
        );
    }
    let held = cluster.api::<Pod>().get("work-x").await.unwrap().metadata.finalizers;
    assert_eq!(held.unwrap_or_default(), ["batch.kubernetes.io/job-tracking"]);

    // Only a stateful set needs the name for the next one, and has to wait for it.
    for (name, app, next) in
        [("stray", "old", 1), ("everywhere-x", "everywhere", 1), ("work-x", "work", 1), ("set-0", "set", 0)]
    {
        let other = Patch::Merge(json!({ "metadata": { "labels": { "app": "other" } } }));
        cluster.api::<Pod>().patch(name, &PatchParams::default(), &other).await.unwrap();
        eventually(&format!("{name} is let go, and replaced if it can be"), || async {
            let metadata = cluster.api::<Pod>().get(name).await.unwrap().metadata;
            let owners = metadata.owner_references.unwrap_or_default();
            let finalizers = metadata.finalizers.unwrap_or_default();
            let others = cluster.pods(&format!("app={app}")).await.len();
            if owners.is_empty() && finalizers.is_empty() && others == next {
                return Ok(());
            }
            Err(format!("{owners:?} {finalizers:?} {others}"))
        })
        .await;
    }
    eventually("the replication controller has counted", || async {
        let status = cluster.api::<ReplicationController>().get("old").await.unwrap().status;
        match &status {
            Some(status) if status.replicas == 1 && status.fully_labeled_replicas == Some(1) => Ok(()),
            _ => Err(format!("{status:?}")),
        }
    })
    .await;
    cluster.stop().await;
}

fn containers(policy: &str) -> Value {
    json!({ "restartPolicy": policy, "containers": [{ "name": "main", "image": "busybox:1" }] })
}

impl Cluster {
    /// Makes an owner, and waits until this pod is its own.
    async fn owns<K>(&self, name: &str, spec: Value, pod: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Serialize,
    {
        let owner: K = self.create(json!({ "metadata": { "name": name }, "spec": spec })).await;
        let uid = owner.meta().uid.clone().unwrap();
        eventually(&format!("{pod} is owned by {name}"), || async {
            let owners = self.api::<Pod>().get(pod).await.unwrap().metadata.owner_references;
            let owners = owners.unwrap_or_default();
            match owners.as_slice() {
                [one] if one.uid == uid && one.controller == Some(true) => Ok(()),
                _ => Err(format!("{owners:?}")),
            }
        })
        .await;
    }
}
