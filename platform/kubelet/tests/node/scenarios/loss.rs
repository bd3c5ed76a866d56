//! A node that is not heard of any more.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::World;
use crate::plane::NODE_GRACE;
use crate::support::{PATIENCE, is_node_ready, is_ready, shell, until, wait_for, wait_within};

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().node_name.as_deref().unwrap_or_default()
}

pub(super) async fn moves(world: &mut World) {
    // No patience with silent nodes, and none is needed to end.
    let tolerations: Vec<_> = ["not-ready", "unreachable"]
        .iter()
        .map(|key| {
            json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 1})
        })
        .collect();
    let spec = json!({"terminationGracePeriodSeconds": 1, "tolerations": tolerations,
        "containers": [shell("exec sleep 600")]});
    world
        .apply(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": world.pod(spec)}}}))
        .await;
    world.printed(&["rollout", "status", "deployment/web", "--timeout=120s"]).await;
    let before = world.pods_with("app=web").await;
    let folders: Vec<_> = before.iter().map(|pod| world.nodes[0].pod_folder(pod)).collect();
    assert!(folders.iter().all(|folder| folder.exists()));
    world.add_node().await;
    let (lost, other) = (world.nodes[0].config.node_name.clone(), world.nodes[1].config.node_name.clone());

    world.nodes[0].kill();
    let nodes: Api<Node> = Api::all(world.client.clone());
    wait_within(NODE_GRACE + PATIENCE, nodes.clone(), &lost, |node: Option<&Node>| {
        let taints = node.and_then(|node| node.spec.as_ref()?.taints.as_ref());
        node.is_some_and(|node| !is_node_ready(node))
            && taints
                .into_iter()
                .flatten()
                .any(|taint| taint.key == "node.kubernetes.io/unreachable" && taint.effect == "NoExecute")
    })
    .await;
    let row = world.printed(&["get", "node", &lost, "--no-headers"]).await;
    assert!(row.contains("NotReady"), "{row}");
    until(|| async {
        let pods = world.pods_with("app=web").await;
        pods.iter().filter(|pod| node_of(pod) == other && is_ready(pod)).count() == 2
    })
    .await;
    // Nobody can say that the old ones have ended: they do not go, and they go on.
    let stale: Vec<_> =
        world.pods_with("app=web").await.into_iter().filter(|pod| node_of(pod) == lost).collect();
    assert_eq!(stale.len(), 2, "{:?}", stale.iter().map(Pod::name_any).collect::<Vec<_>>());
    assert!(stale.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()));
    assert!(folders.iter().all(|folder| folder.exists()));

    world.nodes[0].start().await;
    until(|| async { world.pods_with("app=web").await.iter().all(|pod| node_of(pod) == other) }).await;
    assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
    wait_for(nodes, &lost, |node: Option<&Node>| {
        node.is_some_and(|node| is_node_ready(node) && node.spec.as_ref().unwrap().taints.is_none())
    })
    .await;
    assert_eq!(world.pods_with("app=web").await.len(), 2);
}
