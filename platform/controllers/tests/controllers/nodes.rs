//! Scheduling, pod ranges, and nodes that fall silent.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::support::{Cluster, NAMESPACE, eventually, gone, node_of, on_both};

on_both! {
    pod_without_a_node_says_why_and_is_placed_when_one_comes;
    nodes_get_ranges_of_their_own_and_the_pods_of_a_lost_node_are_not_ready;
}

async fn pod_without_a_node_says_why_and_is_placed_when_one_comes(cluster: Cluster) {
    cluster.node_and_taint("busy").await;
    let spec = json!({
        "metadata": { "name": "lonely", "labels": { "app": "lonely" } },
        "spec": { "containers": [{ "name": "main", "image": "busybox:1" }] },
    });
    cluster.create::<Pod>(spec).await;
    eventually("the pod says why it has no node", || async {
        let pod = cluster.api::<Pod>().get("lonely").await.unwrap();
        let conditions = pod.status.unwrap().conditions.unwrap_or_default();
        let condition = conditions.iter().find(|condition| condition.type_ == "PodScheduled");
        let message = condition.and_then(|condition| condition.message.clone()).unwrap_or_default();
        if message == "0/1 nodes are available: 1 node(s) had untolerated taint {special: }. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling." {
            Ok(())
        } else {
            Err(message)
        }
    })
    .await;
    cluster.node("free").await;
    let pods = cluster.bound_pods("app=lonely", 1).await;
    assert_eq!(node_of(&pods[0]), Some("free"));
    cluster.stop().await;
}

async fn nodes_get_ranges_of_their_own_and_the_pods_of_a_lost_node_are_not_ready(cluster: Cluster) {
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    for name in ["one", "two"] {
        cluster.node(name).await;
    }
    let ranges = eventually("both nodes have a range", || async {
        let found = nodes.list(&Default::default()).await.unwrap();
        let mut ranges: Vec<_> = found.items.into_iter().filter_map(|node| node.spec?.pod_cidr).collect();
        ranges.sort();
        if ranges.len() == 2 { Ok(ranges) } else { Err(format!("{ranges:?}")) }
    })
    .await;
    assert_eq!(ranges, ["10.132.0.0/24", "10.132.1.0/24"]);

    let pod = json!({
        "metadata": { "name": "pod", "labels": { "app": "pod" } },
        "spec": { "nodeName": "two", "containers": [{ "name": "main", "image": "busybox:1" }] },
    });
    cluster.create::<Pod>(pod).await;
    cluster.pod_runs("pod", "10.132.1.1").await;
    cluster.clock.advance(Duration::from_secs(3600));
    // The timers of a process go by another clock; any word about the node is a reason to look.
    cluster.label_node("two", "looked-at").await;
    eventually("the node is unreachable", || async {
        let node = nodes.get("two").await.unwrap();
        let conditions = node.status.unwrap_or_default().conditions.unwrap_or_default();
        let unknown =
            conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "Unknown");
        let taints = node.spec.unwrap_or_default().taints.unwrap_or_default();
        let tainted = taints.iter().any(|taint| taint.key == "node.kubernetes.io/unreachable");
        let pod = cluster.api::<Pod>().get("pod").await.unwrap();
        let conditions = pod.status.unwrap().conditions.unwrap_or_default();
        let ready =
            conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        if unknown && tainted && !ready { Ok(()) } else { Err(format!("{unknown} {tainted} {ready}")) }
    })
    .await;

    // When the node itself goes, nobody is left to confirm that its pods have ended.
    nodes.delete("two", &Default::default()).await.unwrap();
    gone(&cluster.api::<Pod>(), "pod").await;
    cluster.stop().await;
}

impl Cluster {
    async fn node_and_taint(&self, name: &str) {
        let api: Api<Node> = Api::all(self.client.clone());
        let node = json!({
            "metadata": { "name": name },
            "spec": { "taints": [{ "key": "special", "effect": "NoSchedule" }] },
        });
        let node: Node = serde_json::from_value(node).unwrap();
        api.create(&Default::default(), &node).await.unwrap();
        self.node_says(name, "True").await;
        // Until then it has a taint for that too.
        eventually("the node is ready", || async {
            let taints = api.get(name).await.unwrap().spec.unwrap().taints.unwrap_or_default();
            if taints.len() == 1 { Ok(()) } else { Err(format!("{taints:?}")) }
        })
        .await;
    }

    async fn label_node(&self, name: &str, label: &str) {
        let api: Api<Node> = Api::all(self.client.clone());
        let mut node = api.get(name).await.unwrap();
        node.labels_mut().insert(label.to_owned(), NAMESPACE.to_owned());
        let patch = kube::api::Patch::Merge(json!({ "metadata": { "labels": node.labels() } }));
        api.patch(name, &Default::default(), &patch).await.unwrap();
    }
}
