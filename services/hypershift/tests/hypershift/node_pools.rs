use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use pilothouse_crds::{NodePool, NodePoolStatus};
use pilothouse_test_support::eventually;
use serde_json::json;

use crate::support::{CONTROL_PLANE, NAMESPACE, PATIENCE, Region};

/// The pool's status, once it is ready with this many nodes.
async fn eventually_ready(region: &Region, replicas: i32) -> NodePoolStatus {
    eventually(&format!("the pool is ready with {replicas} nodes"), PATIENCE, async || {
        let pool =
            region.api::<NodePool>(NAMESPACE).get("workers").await.map_err(|error| error.to_string())?;
        let status = pool.status.unwrap_or_default();
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready").cloned();
        match ready {
            Some(ready) if ready.status.as_str() == "True" && status.replicas == replicas => Ok(status),
            other => Err(format!("{} replicas, {other:?}", status.replicas)),
        }
    })
    .await
}

#[tokio::test]
async fn a_pool_grows_and_shrinks_and_goes_with_its_nodes() {
    let region = Region::start().await;
    region.create_cluster("pilothouse/release:4.20.0").await;
    region.create_pool(2).await;
    region.run_control_plane().await;

    let (pods, secrets): (Api<Pod>, Api<Secret>) = (region.api(CONTROL_PLANE), region.api(CONTROL_PLANE));
    for worker in ["workers-0", "workers-1"] {
        let pod = region.eventually_there(&pods, worker).await;
        let command = pod.spec.unwrap().containers[0].command.clone().unwrap();
        assert_eq!(command[..2], ["pilothouse", "kubelet"]);
        region.join(worker).await;
    }
    let settings =
        secrets.get("workers-0-kubelet").await.unwrap().data.unwrap().remove("kubelet.toml").unwrap();
    let settings: toml::Table = String::from_utf8(settings.0).unwrap().parse().unwrap();
    assert_eq!(settings["node_name"].as_str(), Some("workers-0"));
    assert_eq!(settings["service_range"].as_str(), Some("172.31.0.0/16"));
    let status = eventually_ready(&region, 2).await;
    assert_eq!(status.version, "4.20.0");

    // The node around a worker is told where the worker's pods are.
    let nodes: Api<Node> = Api::all(region.hosted_client().await);
    let assigned = json!({ "spec": { "podCIDR": "10.132.4.0/24", "podCIDRs": ["10.132.4.0/24"] } });
    nodes.patch("workers-0", &PatchParams::default(), &Patch::Merge(assigned)).await.unwrap();
    eventually("the worker's range is on its pod", PATIENCE, async || {
        let pod = pods.get("workers-0").await.map_err(|error| error.to_string())?;
        let annotations = pod.metadata.annotations.unwrap_or_default();
        match annotations.get("pilothouse.dev/pod-range").map(String::as_str) {
            Some("10.132.4.0/24") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    // The newest goes first, and its node and Secret with it.
    let pools: Api<NodePool> = region.api(NAMESPACE);
    let fewer = json!({ "spec": { "replicas": 1 } });
    pools.patch("workers", &PatchParams::default(), &Patch::Merge(fewer)).await.unwrap();
    region.eventually_gone(&pods, "workers-1").await;
    region.eventually_gone(&nodes, "workers-1").await;
    region.eventually_gone(&secrets, "workers-1-kubelet").await;
    eventually_ready(&region, 1).await;

    let more = json!({ "spec": { "replicas": 2 } });
    pools.patch("workers", &PatchParams::default(), &Patch::Merge(more)).await.unwrap();
    region.eventually_there(&pods, "workers-1").await;

    let _ = pools.delete("workers", &DeleteParams::default()).await.unwrap();
    region.eventually_gone(&pools, "workers").await;
    region.eventually_gone(&nodes, "workers-0").await;
    region.eventually_gone(&secrets, "workers-0-kubelet").await;
    assert!(pods.get_opt("workers-0").await.unwrap().is_none());
    // The cluster itself does not mind.
    region.eventually_condition("Available", "True").await;
    region.stop().await;
}
