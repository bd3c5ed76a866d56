//! Hosted clusters become managed clusters by themselves.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use pilothouse_crds::{HostedCluster, ManagedCluster, ServicePublishing, is_condition_true};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Region};

async fn make_hosted(region: &Region, namespace: &str, name: &str, labels: Value) -> Api<HostedCluster> {
    let namespaces: Api<Namespace> = Api::all(region.client.clone());
    if namespaces.get_opt(namespace).await.unwrap().is_none() {
        let object = serde_json::from_value(json!({ "metadata": { "name": namespace } })).unwrap();
        namespaces.create(&PostParams::default(), &object).await.unwrap();
    }
    let cluster = json!({
        "metadata": { "name": name, "namespace": namespace, "labels": labels },
        "spec": {
            "release": { "image": "pilothouse/release:4.20.0" }, "platform": { "type": "None" },
            "pullSecret": { "name": "pull-secret" }, "services": ServicePublishing::by_routes(),
        },
    });
    let clusters: Api<HostedCluster> = Api::namespaced(region.client.clone(), namespace);
    clusters.create(&PostParams::default(), &serde_json::from_value(cluster).unwrap()).await.unwrap();
    clusters
}

async fn say_available(clusters: &Api<HostedCluster>, name: &str) {
    let patch = json!({ "status": {
        "controlPlaneEndpoint": { "host": "api.first", "port": 6443 },
        "conditions": [{
            "type": "Available", "status": "True", "reason": "AsExpected", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    } });
    clusters.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn eventually_available(region: &Region, name: &str) -> ManagedCluster {
    let managed: Api<ManagedCluster> = Api::all(region.client.clone());
    eventually(&format!("{name} is imported and available"), PATIENCE, async || {
        let cluster = managed.get(name).await.map_err(|error| error.to_string())?;
        let conditions = cluster.status.iter().flat_map(|status| &status.conditions).cloned();
        let conditions: Vec<_> = conditions.collect();
        let all = ["HubAcceptedManagedCluster", "ManagedClusterJoined", "ManagedClusterConditionAvailable"];
        match all.iter().all(|condition| is_condition_true(&conditions, condition)) {
            true => Ok(cluster),
            false => Err(format!("{conditions:?}")),
        }
    })
    .await
}

#[tokio::test]
async fn a_hosted_cluster_is_imported_when_it_is_available_and_detached_when_it_goes() {
    let region = Region::start().await;
    region
        .make_engine(json!({ "overrides": { "components": [{ "name": "hypershift", "enabled": false }] } }))
        .await;
    let clusters = make_hosted(&region, "hcp", "guest", json!({ "stage": "test" })).await;
    say_available(&clusters, "guest").await;
    let cluster = eventually_available(&region, "guest").await;
    let labels = cluster.metadata.labels.clone().unwrap();
    assert_eq!((labels["name"].as_str(), labels["stage"].as_str()), ("guest", "test"));
    assert_eq!(cluster.spec.managed_cluster_client_configs[0].url, "https://api.first:6443");
    let claims = &cluster.status.as_ref().unwrap().cluster_claims;
    let hosted = claims.iter().find(|claim| claim.name == "hostedcluster.hypershift.openshift.io").unwrap();
    assert_eq!(hosted.value, "hcp/guest");

    // Whoever collects garbage would take both with the managed cluster.
    let leases: Api<Lease> = Api::namespaced(region.client.clone(), "guest");
    let lease =
        eventually("its lease is there", PATIENCE, async || leases.get("managed-cluster-lease").await).await;
    let namespace = Api::<Namespace>::all(region.client.clone()).get("guest").await.unwrap();
    for owners in [lease.metadata.owner_references, namespace.metadata.owner_references] {
        assert_eq!(owners.unwrap()[0].uid, cluster.metadata.uid.clone().unwrap());
    }

    let managed: Api<ManagedCluster> = Api::all(region.client.clone());
    let _ = managed.delete("guest", &DeleteParams::default()).await.unwrap();
    eventually("it is imported again", PATIENCE, async || match managed.get_opt("guest").await.unwrap() {
        Some(other) if other.metadata.uid != cluster.metadata.uid => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let _ = clusters.delete("guest", &DeleteParams::default()).await.unwrap();
    eventually("it is detached", PATIENCE, async || match managed.get_opt("guest").await.unwrap() {
        None => Ok(()),
        Some(cluster) => Err(format!("{cluster:?}")),
    })
    .await;
    region.stop().await;
}

#[tokio::test]
async fn a_name_is_given_once_and_clusters_with_an_id_are_left_to_others() {
    let region = Region::start().await;
    let first = make_hosted(&region, "one", "guest", json!({})).await;
    let second = make_hosted(&region, "two", "guest", json!({})).await;
    let labelled =
        make_hosted(&region, "one", "mine", json!({ "api.openshift.com/id": "by-manifest" })).await;
    for (clusters, name) in [(&first, "guest"), (&second, "guest"), (&labelled, "mine")] {
        say_available(clusters, name).await;
    }
    let managed: Api<ManagedCluster> = Api::all(region.client.clone());
    // Only now does anybody want them.
    region.make_engine(json!({})).await;
    let cluster = eventually_available(&region, "guest").await;
    let winner = cluster.metadata.annotations.unwrap()["hypershift.openshift.io/cluster"].clone();
    let loser = if winner == "one/guest" { "two" } else { "one" };
    let events: Api<Event> = Api::namespaced(region.client.clone(), loser);
    eventually("the other is told", PATIENCE, async || {
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let told = events.iter().any(|event| event.reason.as_deref() == Some("ManagedClusterNameTaken"));
        if told { Ok(()) } else { Err(format!("{events:?}")) }
    })
    .await;
    let names: Vec<_> = managed.list(&ListParams::default()).await.unwrap().items;
    let names: Vec<_> = names.iter().filter_map(|cluster| cluster.metadata.name.as_deref()).collect();
    assert!(!names.contains(&"mine") && !names.contains(&"by-manifest"), "{names:?}");

    let made = json!({ "metadata": { "name": "by-manifest" }, "spec": { "hubAcceptsClient": true } });
    managed.create(&PostParams::default(), &serde_json::from_value(made).unwrap()).await.unwrap();
    eventually_available(&region, "by-manifest").await;
    region.stop().await;
}
