//! Room that is short: preemption, disruption budgets, and nodes that pods have to leave.

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::support::{Cluster, NAMESPACE, eventually, gone, node_of, on_both};

on_both! {
    important_pod_takes_the_place_of_a_lesser_one;
    budget_lets_as_many_pods_be_evicted_as_it_says;
    pod_leaves_a_node_whose_taint_it_does_not_tolerate_for_long;
    claim_waits_for_its_first_pod_and_is_kept_while_the_pod_runs;
}

fn pod(name: &str, class: Option<&str>, cpu: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "priorityClassName": class,
            "containers": [{
                "name": "main", "image": "busybox:1", "resources": { "requests": { "cpu": cpu } },
            }],
        },
    })
}

async fn node_with_processors(cluster: &Cluster, name: &str, cpu: &str) {
    cluster.node(name).await;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let status = Patch::Merge(json!({ "status": { "allocatable": { "cpu": cpu, "pods": "10" } } }));
    nodes.patch_status(name, &PatchParams::default(), &status).await.unwrap();
}

async fn important_pod_takes_the_place_of_a_lesser_one(cluster: Cluster) {
    node_with_processors(&cluster, "one", "1").await;
    let classes: Api<PriorityClass> = Api::all(cluster.client.clone());
    let class = json!({ "metadata": { "name": "dear" }, "value": 1000 });
    classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    cluster.create::<Pod>(pod("lesser", None, "800m")).await;
    cluster.bound_pods("app=lesser", 1).await;

    cluster.create::<Pod>(pod("important", Some("dear"), "500m")).await;
    eventually("room is being made", || async {
        let pod = cluster.api::<Pod>().get("important").await.unwrap();
        let nominated = pod.status.and_then(|status| status.nominated_node_name);
        let lesser = cluster.api::<Pod>().get("lesser").await.unwrap();
        let conditions =
            lesser.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        let told = conditions.iter().any(|condition| condition.type_ == "DisruptionTarget");
        let going = lesser.metadata.deletion_timestamp.is_some();
        match (nominated.as_deref(), told, going) {
            (Some("one"), true, true) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    eventually("the important pod has the place", || async {
        cluster.confirm_ended_pods(NAMESPACE).await;
        let pod = cluster.api::<Pod>().get("important").await.unwrap();
        match node_of(&pod) {
            Some("one") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    eventually("people are told", || async {
        let events = cluster.api::<Event>().list(&ListParams::default()).await.unwrap();
        let found: Vec<_> = events.items.into_iter().filter_map(|event| event.reason).collect();
        let all = ["FailedScheduling", "Preempted", "Scheduled"];
        if all.iter().all(|reason| found.iter().any(|other| other == reason)) {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
    cluster.stop().await;
}

async fn budget_lets_as_many_pods_be_evicted_as_it_says(cluster: Cluster) {
    cluster.node("one").await;
    cluster
        .create::<ReplicaSet>(json!({
            "metadata": { "name": "web" },
            "spec": {
                "replicas": 2,
                "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": [{ "name": "main", "image": "busybox:1" }] },
                },
            },
        }))
        .await;
    let pods = cluster.bound_pods("app=web", 2).await;
    for pod in &pods {
        cluster.pod_runs(&pod.name_any(), "10.132.0.1").await;
    }
    cluster
        .create::<PodDisruptionBudget>(json!({
            "metadata": { "name": "web" },
            "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "web" } } },
        }))
        .await;
    eventually("one may go", || async {
        let budget = cluster.api::<PodDisruptionBudget>().get("web").await.unwrap();
        let status = budget.status.unwrap_or_default();
        let numbers = (status.expected_pods, status.current_healthy, status.disruptions_allowed);
        if numbers == (2, 2, 1) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    cluster.api::<Pod>().evict(&pods[0].name_any(), &EvictParams::default()).await.unwrap();
    // Nobody runs the replacement, so there is none to spare.
    eventually("no other may go", || async {
        let status =
            cluster.api::<PodDisruptionBudget>().get("web").await.unwrap().status.unwrap_or_default();
        let numbers = (status.current_healthy, status.desired_healthy, status.disruptions_allowed);
        if numbers == (1, 1, 0) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    cluster.stop().await;
}

async fn pod_leaves_a_node_whose_taint_it_does_not_tolerate_for_long(cluster: Cluster) {
    cluster.node("one").await;
    let toleration = |seconds: Option<i64>| json!([{ "key": "leaving", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds }]);
    for (name, tolerations) in
        [("never", json!([])), ("while", toleration(Some(60))), ("always", toleration(None))]
    {
        let mut spec = pod(name, None, "10m");
        spec["spec"]["nodeName"] = json!("one");
        spec["spec"]["tolerations"] = tolerations;
        cluster.create::<Pod>(spec).await;
    }
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let taint = json!({ "key": "leaving", "effect": "NoExecute", "timeAdded": cluster.clock_now() });
    let patch = Patch::Merge(json!({ "spec": { "taints": [taint] } }));
    nodes.patch("one", &PatchParams::default(), &patch).await.unwrap();
    let is_going = async |name: &str| {
        let found = cluster.api::<Pod>().get_opt(name).await.unwrap();
        found.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
    };
    eventually("the first leaves at once", || async {
        is_going("never").await.then_some(()).ok_or_else(String::new)
    })
    .await;
    assert!(!is_going("while").await && !is_going("always").await);
    cluster.clock.advance(Duration::from_secs(61));
    let label = Patch::Merge(json!({ "metadata": { "labels": { "looked": "at" } } }));
    for name in ["while", "always"] {
        cluster.api::<Pod>().patch(name, &PatchParams::default(), &label).await.unwrap();
    }
    eventually("the second when its time is over", || async {
        is_going("while").await.then_some(()).ok_or_else(String::new)
    })
    .await;
    cluster.at_rest().await;
    assert!(!is_going("always").await);
    cluster.stop().await;
}

async fn claim_waits_for_its_first_pod_and_is_kept_while_the_pod_runs(cluster: Cluster) {
    let classes: Api<StorageClass> = Api::all(cluster.client.clone());
    let class = json!({
        "metadata": { "name": "patient" }, "provisioner": "pilothouse.dev/local",
        "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Retain",
    });
    classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    let claim = json!({
        "metadata": { "name": "data" },
        "spec": {
            "storageClassName": "patient", "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    cluster.create::<PersistentVolumeClaim>(claim).await;
    cluster.at_rest().await;
    let claims = cluster.api::<PersistentVolumeClaim>();
    assert_eq!(claims.get("data").await.unwrap().spec.unwrap().volume_name, None);

    node_with_processors(&cluster, "one", "1").await;
    let mut user = pod("user", None, "10m");
    user["spec"]["volumes"] = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
    cluster.create::<Pod>(user).await;
    cluster.bound_pods("app=user", 1).await;
    eventually("the claim is bound", || async {
        let status = claims.get("data").await.unwrap().status.unwrap_or_default();
        if status.phase.as_deref() == Some("Bound") { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    claims.delete("data", &Default::default()).await.unwrap();
    cluster.at_rest().await;
    assert!(claims.get("data").await.unwrap().metadata.deletion_timestamp.is_some(), "its pod still runs");
    cluster.api::<Pod>().delete("user", &Default::default()).await.unwrap();
    eventually("the pod has ended", || async {
        cluster.confirm_ended_pods(NAMESPACE).await;
        let left = cluster.api::<Pod>().get_opt("user").await.unwrap();
        left.is_none().then_some(()).ok_or_else(String::new)
    })
    .await;
    gone(&claims, "data").await;
    cluster.stop().await;
}
