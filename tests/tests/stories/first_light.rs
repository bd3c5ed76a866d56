//! One cluster through the whole chain: asked of the resource provider, seen by every component on the way, gone again.

use pilothouse_test_support::eventually;
use serde_json::{Value, json};

pub(crate) use crate::provider::SUBSCRIPTION;
use crate::provider::curl;
use crate::region::{LIMIT, Region};

pub(crate) fn cluster_body() -> Value {
    let group = format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/first/providers");
    let identity = format!("{group}/Microsoft.ManagedIdentity/userAssignedIdentities/service");
    let network = format!("{group}/Microsoft.Network/virtualNetworks/net/subnets");
    json!({
        "identity": { "type": "UserAssigned", "userAssignedIdentities": { (identity.clone()): {} } },
        "properties": {
            "version": { "id": "4.20" },
            "platform": {
                "subnetId": format!("{network}/nodes"),
                "vnetIntegrationSubnetId": format!("{network}/control"),
                "networkSecurityGroupId": format!("{group}/Microsoft.Network/networkSecurityGroups/rules"),
                "operatorsAuthentication": { "userAssignedIdentities": {
                    "controlPlaneOperators": {}, "dataPlaneOperators": {}, "serviceManagedIdentity": identity,
                } },
            },
        },
    })
}

/// So many nodes, of the version that the pool has or its cluster offers.
pub(crate) fn node_pool_body(replicas: usize) -> Value {
    json!({ "properties": { "platform": { "vmSize": "Standard_D8s_v3" }, "replicas": replicas } })
}

#[tokio::test(flavor = "multi_thread")]
async fn first_cluster_is_seen_by_every_component_and_leaves_nothing_behind() {
    let Some(mut region) = Region::start(&["--cluster", "first"]).await else { return };
    let first = Region::cluster_id("first");

    // The cluster itself, and a pod that runs on it.
    let kubeconfig = region.kubeconfig("first").unwrap();
    let nodes = region.kubectl_on(&kubeconfig, &["get", "nodes"]).unwrap();
    assert!(nodes.contains(" Ready "), "{nodes}");
    region.kubectl_on(&region.data_dir().join("clusters/first.kubeconfig"), &["get", "nodes"]).unwrap();

    // One node more, and one less again.
    let workers = format!("{first}/nodePools/workers");
    for replicas in [2, 1] {
        let (status, answer) = region.arm("PUT", &workers, Some(&node_pool_body(replicas)));
        assert_eq!(
            (status, &answer["properties"]["provisioningState"]),
            (200, &json!("Accepted")),
            "{answer}"
        );
        region.reaches(&workers, "Succeeded").await;
        let nodes = region.kubectl_on(&kubeconfig, &["get", "nodes", "--no-headers"]).unwrap();
        let ready = nodes.lines().filter(|node| node.contains(" Ready ")).count();
        assert_eq!((nodes.lines().count(), ready), (replicas, replicas), "{nodes}");
    }

    // A second cluster whose name is taken as a host name.
    let second = Region::cluster_id("second");
    let (status, answer) = region.arm("PUT", &second, Some(&cluster_body()));
    assert_eq!(status, 201, "{answer}");
    region.reaches(&second, "Succeeded").await;
    let other = region.kubeconfig("second").unwrap();
    assert_eq!(region.kubectl_on(&other, &["get", "nodes", "-o", "name"]).unwrap(), "");

    // Gone again, in any order, with nothing left in any store, no process and no file.
    for cluster in [&second, &first] {
        let (status, answer) = region.arm("DELETE", cluster, None);
        assert_eq!(status, 202, "{answer}");
    }
    region.is_gone(&second).await;
    region.is_gone(&first).await;
    let (_, found) =
        curl(&[&format!("{}/api/clusters_mgmt/v1/clusters", region.endpoints().clusters_service)]).unwrap();
    assert_eq!(found["total"], 0, "{found}");
    let bundles = format!("{}/api/maestro/v1/resource-bundles", region.endpoints().maestro);
    let (_, bundles) = curl(&[&bundles]).unwrap();
    assert_eq!(bundles["total"], 0, "{bundles}");
    let kinds = "hostedclusters,nodepools,manifestworks,appliedmanifestworks,managedclusters,routes,persistentvolumes";
    eventually("the management cluster is empty", LIMIT, || {
        let rest = [region.kubectl(&["get", kinds, "-A", "-o", "name"]), region.pods()];
        async move {
            if rest == [Ok(String::new()), Ok(String::new())] { Ok(()) } else { Err(format!("{rest:?}")) }
        }
    })
    .await;
    // Nor the kubeconfig that was left for whoever started the region.
    let kubeconfig = region.data_dir().join("clusters/first.kubeconfig");
    eventually("its kubeconfig is gone", LIMIT, || {
        let exists = kubeconfig.exists();
        async move { if exists { Err("it is there".to_owned()) } else { Ok(()) } }
    })
    .await;
    let groups = format!(
        "{}/subscriptions/{SUBSCRIPTION}/resourcegroups?api-version=2021-04-01",
        region.endpoints().cloud
    );
    let (status, groups) = curl(&[&groups]).unwrap();
    assert_eq!((status, &groups["value"]), (200, &json!([])));
    region.is_alone(&["first", "second"]).await;
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
    assert_eq!(region.pod_files(), [""; 0]);
}
