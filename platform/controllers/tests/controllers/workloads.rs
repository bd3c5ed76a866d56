//! Deployments and stateful sets.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::support::{Cluster, NAMESPACE, eventually, gone, node_of, on_both};

on_both! {
    deployment_becomes_pods_on_nodes_and_follows_its_size;
    new_template_rolls_out_while_the_old_pods_serve;
    stateful_set_has_ordered_pods_with_bound_claims_that_outlive_it;
    set_takes_pods_of_nobody_and_lets_go_what_it_no_longer_selects;
    partition_keeps_the_template_before_for_pods_below_it;
}

fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "main", "image": image }] },
    })
}

fn deployment(replicas: i32) -> Value {
    json!({
        "metadata": { "name": "web", "annotations": { "pilothouse.dev/correlation-id": "42" } },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "web" } },
            "template": template("busybox:1"),
        },
    })
}

async fn deployment_says(cluster: &Cluster, type_: &str, reason: &str) -> Deployment {
    eventually(&format!("the deployment is {type_} for {reason}"), || async {
        let deployment = cluster.api::<Deployment>().get("web").await.unwrap();
        let status = deployment.status.clone().unwrap_or_default();
        let conditions = status.conditions.clone().unwrap_or_default();
        let condition = conditions.iter().find(|condition| condition.type_ == type_);
        let observed = status.observed_generation == deployment.metadata.generation;
        if observed && condition.is_some_and(|condition| condition.reason.as_deref() == Some(reason)) {
            Ok(deployment)
        } else {
            Err(format!("{status:?}"))
        }
    })
    .await
}

async fn deployment_becomes_pods_on_nodes_and_follows_its_size(cluster: Cluster) {
    cluster.node("one").await;
    cluster.node("two").await;
    cluster.create::<Deployment>(deployment(4)).await;
    let pods = cluster.bound_pods("app=web", 4).await;
    let on_one = pods.iter().filter(|pod| node_of(pod) == Some("one")).count();
    assert_eq!(on_one, 2, "pods are spread");
    assert!(pods.iter().all(|pod| pod.annotations()["pilothouse.dev/correlation-id"] == "42"));
    deployment_says(&cluster, "Available", "MinimumReplicasUnavailable").await;

    for (index, pod) in pods.iter().enumerate() {
        cluster.pod_runs(&pod.name_any(), &format!("10.132.0.{}", index + 1)).await;
    }
    let done = deployment_says(&cluster, "Progressing", "NewReplicaSetAvailable").await;
    assert_eq!(done.status.unwrap().available_replicas, Some(4));
    assert_eq!(done.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"], "1");

    cluster.at_rest().await;
    let smaller = Patch::Merge(json!({ "spec": { "replicas": 1 } }));
    cluster.api::<Deployment>().patch("web", &PatchParams::default(), &smaller).await.unwrap();
    eventually("one pod is left", || async {
        cluster.confirm_ended_pods(NAMESPACE).await;
        match cluster.api::<Pod>().list(&ListParams::default()).await.unwrap().items.len() {
            1 => Ok(()),
            other => Err(format!("{other} pods")),
        }
    })
    .await;
    assert!(cluster.controllers.statuses().iter().all(|status| status.failing == 0));
    cluster.stop().await;
}

async fn new_template_rolls_out_while_the_old_pods_serve(cluster: Cluster) {
    cluster.node("one").await;
    cluster.create::<Deployment>(deployment(2)).await;
    for pod in cluster.bound_pods("app=web", 2).await {
        cluster.pod_runs(&pod.name_any(), "10.132.0.1").await;
    }
    deployment_says(&cluster, "Progressing", "NewReplicaSetAvailable").await;

    let patch = Patch::Merge(json!({ "spec": { "template": template("busybox:2") } }));
    cluster.api::<Deployment>().patch("web", &PatchParams::default(), &patch).await.unwrap();
    let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
    eventually("both pods are new", || async {
        cluster.confirm_ended_pods(NAMESPACE).await;
        let pods = cluster.pods("app=web").await;
        let serving: Vec<_> = pods.iter().filter(|pod| is_ready(pod)).collect();
        assert!(serving.len() >= 2, "a rollout never has fewer pods than were asked for");
        if pods.len() == 2 && pods.iter().all(|pod| image(pod) == "busybox:2") {
            return Ok(());
        }
        for pod in pods.iter().filter(|pod| node_of(pod).is_some() && !is_ready(pod)) {
            cluster.pod_runs(&pod.name_any(), "10.132.0.2").await;
        }
        Err(format!("{:?}", pods.iter().map(image).collect::<Vec<_>>()))
    })
    .await;
    let done = deployment_says(&cluster, "Progressing", "NewReplicaSetAvailable").await;
    assert_eq!(done.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"], "2");
    let sets = cluster.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap();
    assert_eq!(sets.items.len(), 2, "the old template is kept as history");
    cluster.stop().await;
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

async fn stateful_set_has_ordered_pods_with_bound_claims_that_outlive_it(cluster: Cluster) {
    cluster.node("one").await;
    cluster
        .create::<StatefulSet>(json!({
            "metadata": { "name": "db" },
            "spec": {
                "replicas": 2,
                "serviceName": "db",
                "selector": { "matchLabels": { "app": "db" } },
                "template": {
                    "metadata": { "labels": { "app": "db" } },
                    "spec": { "containers": [{ "name": "main", "image": "busybox:1" }] },
                },
                "volumeClaimTemplates": [{
                    "metadata": { "name": "data" },
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": { "requests": { "storage": "1Gi" } },
                    },
                }],
            },
        }))
        .await;
    let first = cluster.bound_pods("app=db", 1).await.remove(0);
    assert_eq!(first.name_any(), "db-0");
    let claims = cluster.api::<PersistentVolumeClaim>();
    let claim = eventually("the claim is bound", || async {
        let claim = claims.get("data-db-0").await.unwrap();
        match claim.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Bound") => Ok(claim),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
    let volume = claim.spec.unwrap().volume_name.unwrap();
    let phase = |expected: &'static str| {
        let (volumes, volume) = (volumes.clone(), volume.clone());
        eventually("the volume's phase", move || {
            let (volumes, volume) = (volumes.clone(), volume.clone());
            async move {
                let found = volumes.get(&volume).await.unwrap();
                let phase = found.status.as_ref().and_then(|status| status.phase.clone());
                if phase.as_deref() == Some(expected) { Ok(found) } else { Err(format!("{phase:?}")) }
            }
        })
    };
    let path = phase("Bound").await.spec.unwrap().host_path.unwrap().path;
    assert_eq!(path, cluster.volumes.join(&volume).to_str().unwrap());

    // The second comes when the first is ready.
    assert!(cluster.api::<Pod>().get_opt("db-1").await.unwrap().is_none());
    cluster.pod_runs("db-0", "10.132.0.1").await;
    cluster.bound_pods("app=db", 2).await;
    cluster.pod_runs("db-1", "10.132.0.2").await;

    cluster.at_rest().await;

    // Another template: from the end, one at a time.
    let before = cluster.api::<Pod>().get("db-0").await.unwrap();
    let patch = Patch::Merge(json!({ "spec": { "template": { "spec": {
        "containers": [{ "name": "main", "image": "busybox:2" }],
    } } } }));
    cluster.api::<StatefulSet>().patch("db", &PatchParams::default(), &patch).await.unwrap();
    eventually("the last pod is new", || async {
        cluster.confirm_ended_pods(NAMESPACE).await;
        let pod = cluster.api::<Pod>().get_opt("db-1").await.unwrap();
        let image = pod.and_then(|pod| pod.spec.unwrap().containers[0].image.clone());
        if image.as_deref() == Some("busybox:2") { Ok(()) } else { Err(format!("{image:?}")) }
    })
    .await;
    assert_eq!(cluster.api::<Pod>().get("db-0").await.unwrap().uid(), before.uid(), "it waits for the other");

    cluster.api::<StatefulSet>().delete("db", &Default::default()).await.unwrap();
    gone(&cluster.api::<StatefulSet>(), "db").await;
    eventually("the pods are gone", || async {
        cluster.confirm_ended_pods(NAMESPACE).await;
        let left = cluster.api::<Pod>().list(&ListParams::default()).await.unwrap().items.len();
        if left == 0 { Ok(()) } else { Err(format!("{left} pods")) }
    })
    .await;
    claims.delete("data-db-0", &Default::default()).await.unwrap();
    phase("Released").await;
    assert!(claims.get_opt("data-db-1").await.unwrap().is_some());
    cluster.stop().await;
}

async fn set_takes_pods_of_nobody_and_lets_go_what_it_no_longer_selects(cluster: Cluster) {
    let mut stray = template("busybox:1");
    stray["metadata"]["name"] = json!("stray");
    cluster.create::<Pod>(stray).await;
    // Whoever has not heard of the pod makes another one, and then there is one too many.
    eventually("the controllers know of the pod", || async {
        let status = cluster.api::<Pod>().get("stray").await.unwrap().status;
        let conditions = status.and_then(|status| status.conditions).unwrap_or_default();
        let known = conditions.iter().any(|condition| condition.type_ == "PodScheduled");
        if known { Ok(()) } else { Err("no word of a node for it".to_owned()) }
    })
    .await;
    cluster
        .create::<ReplicaSet>(json!({
            "metadata": { "name": "web" },
            "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "web" } }, "template": template("busybox:1") },
        }))
        .await;
    let owner = async || {
        let pod = cluster.api::<Pod>().get("stray").await.unwrap();
        pod.metadata.owner_references.unwrap_or_default().first().map(|owner| owner.name.clone())
    };
    eventually("the stray pod has an owner", || async {
        let owner = owner().await;
        if owner.as_deref() == Some("web") { Ok(()) } else { Err(format!("{owner:?}")) }
    })
    .await;
    cluster.at_rest().await;
    assert_eq!(cluster.pods("app=web").await.len(), 1, "it is the one that was wanted");
    let other = Patch::Merge(json!({ "metadata": { "labels": { "app": "other" } } }));
    cluster.api::<Pod>().patch("stray", &PatchParams::default(), &other).await.unwrap();
    eventually("it is let go and replaced", || async {
        match (owner().await, cluster.pods("app=web").await.len()) {
            (None, 1) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    cluster.stop().await;
}

async fn partition_keeps_the_template_before_for_pods_below_it(cluster: Cluster) {
    cluster.node("one").await;
    let set = json!({
        "metadata": { "name": "db" },
        "spec": {
            "replicas": 2,
            "serviceName": "db",
            "podManagementPolicy": "Parallel",
            "selector": { "matchLabels": { "app": "db" } },
            "template": {
                "metadata": { "labels": { "app": "db" } },
                "spec": { "containers": [{ "name": "main", "image": "busybox:1" }] },
            },
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 1 } },
        },
    });
    cluster.create::<StatefulSet>(set).await;
    for pod in cluster.bound_pods("app=db", 2).await {
        cluster.pod_runs(&pod.name_any(), "10.132.0.1").await;
    }
    cluster.at_rest().await;
    let patch = Patch::Merge(json!({ "spec": { "template": { "spec": {
        "containers": [{ "name": "main", "image": "busybox:2" }],
    } } } }));
    cluster.api::<StatefulSet>().patch("db", &PatchParams::default(), &patch).await.unwrap();
    let images = async || {
        cluster.confirm_ended_pods(NAMESPACE).await;
        let mut images = Vec::new();
        for pod in cluster.pods("app=db").await {
            if node_of(&pod).is_some() && !is_ready(&pod) {
                cluster.pod_runs(&pod.name_any(), "10.132.0.2").await;
            }
            images.push((pod.name_any(), pod.spec.unwrap().containers[0].image.clone().unwrap()));
        }
        images.sort();
        images
    };
    let of = |first: &str, second: &str| {
        vec![("db-0".to_owned(), first.to_owned()), ("db-1".to_owned(), second.to_owned())]
    };
    eventually("the second is new", || async {
        let images = images().await;
        if images == of("busybox:1", "busybox:2") { Ok(()) } else { Err(format!("{images:?}")) }
    })
    .await;
    // Even when it has to be made anew.
    let before = cluster.api::<Pod>().get("db-0").await.unwrap().uid();
    cluster.api::<Pod>().delete("db-0", &Default::default()).await.unwrap();
    eventually("the first is back as it was", || async {
        let images = images().await;
        let now = cluster.api::<Pod>().get_opt("db-0").await.unwrap().and_then(|pod| pod.uid());
        let anew = now.is_some() && now != before;
        if anew && images == of("busybox:1", "busybox:2") { Ok(()) } else { Err(format!("{images:?}")) }
    })
    .await;
    cluster.stop().await;
}
