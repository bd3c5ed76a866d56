use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use pilothouse_crds::{
    AppliedManifestWork, HostedCluster, ManagedCluster, ManifestWork, ServicePublishing, find_condition,
    is_condition_true,
};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Region};

/// A work with a hosted cluster in it, as Clusters Service writes them.
fn work() -> ManifestWork {
    let manifests = [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "ocm-local-1" } }),
        json!({
            "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedCluster",
            "metadata": {
                "name": "first", "namespace": "ocm-local-1", "labels": { "api.openshift.com/id": "1" },
            },
            "spec": {
                "release": { "image": "pilothouse/release:4.20.0" }, "platform": { "type": "None" },
                "services": ServicePublishing::by_routes(), "pullSecret": { "name": "pull" },
            },
        }),
    ];
    serde_json::from_value(json!({
        "metadata": { "name": "1-hypershift", "namespace": "local-cluster" },
        "spec": {
            "workload": { "manifests": manifests },
            "manifestConfigs": [{
                "resourceIdentifier": {
                    "group": "hypershift.openshift.io", "resource": "hostedclusters",
                    "name": "first", "namespace": "ocm-local-1",
                },
                "feedbackRules": [{ "type": "JSONPaths", "jsonPaths": [{
                    "name": "Available-Status", "path": r#".status.conditions[?(@.type=="Available")].status"#,
                }] }],
            }],
        },
    }))
    .unwrap()
}

async fn say_available(region: &Region, status: &str) {
    let condition = json!({
        "type": "Available", "status": status, "reason": "AsExpected", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let clusters: Api<HostedCluster> = Api::namespaced(region.client.clone(), "ocm-local-1");
    let patch = json!({ "status": { "conditions": [condition] } });
    clusters.patch_status("first", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test]
async fn a_work_is_applied_reports_what_happens_and_takes_everything_back() {
    let region = Region::start().await;
    let works: Api<ManifestWork> = Api::namespaced(region.client.clone(), "local-cluster");
    works.create(&PostParams::default(), &work()).await.unwrap();
    let status = eventually("the work is applied", PATIENCE, async || {
        let status = works.get("1-hypershift").await.unwrap().status.unwrap_or_default();
        match is_condition_true(&status.conditions, "Applied")
            && is_condition_true(&status.conditions, "Available")
        {
            true => Ok(status),
            false => Err(format!("{status:?}")),
        }
    })
    .await;
    assert_eq!(status.resource_status.manifests.len(), 2);

    say_available(&region, "True").await;
    eventually("the feedback arrives", PATIENCE, async || {
        let status = works.get("1-hypershift").await.unwrap().status.unwrap_or_default();
        let manifest = status.resource_status.manifests.into_iter().nth(1).unwrap_or_default();
        let value =
            manifest.status_feedback.values.into_iter().find(|value| value.name == "Available-Status");
        match value.and_then(|value| value.field_value.string) {
            Some(value) if value == "True" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    let _ = works.delete("1-hypershift", &DeleteParams::default()).await.unwrap();
    let clusters: Api<HostedCluster> = Api::namespaced(region.client.clone(), "ocm-local-1");
    eventually("the hosted cluster is gone", PATIENCE, async || match clusters.get_opt("first").await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    finalize(&region, "ocm-local-1").await;
    eventually("the work is gone, and its record", PATIENCE, async || {
        let records =
            Api::<AppliedManifestWork>::all(region.client.clone()).list(&Default::default()).await.unwrap();
        match (works.get_opt("1-hypershift").await, records.items.len()) {
            (Ok(None), 0) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    region.stop().await;
}

#[tokio::test]
async fn a_managed_cluster_follows_its_hosted_cluster() {
    let region = Region::start().await;
    let managed: Api<ManagedCluster> = Api::all(region.client.clone());
    let cluster = serde_json::from_value(json!({
        "metadata": { "name": "1" }, "spec": { "hubAcceptsClient": true },
    }));
    managed.create(&PostParams::default(), &cluster.unwrap()).await.unwrap();
    let eventually_available = async |status: &str| {
        eventually(&format!("available is {status}"), PATIENCE, async || {
            let conditions = managed.get("1").await.unwrap().status.unwrap_or_default().conditions;
            match find_condition(&conditions, "ManagedClusterConditionAvailable") {
                Some(found) if found.status.as_str() == status => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    };
    eventually_available("Unknown").await;
    let works: Api<ManifestWork> = Api::namespaced(region.client.clone(), "local-cluster");
    works.create(&PostParams::default(), &work()).await.unwrap();
    eventually("the hosted cluster is there", PATIENCE, async || {
        Api::<HostedCluster>::namespaced(region.client.clone(), "ocm-local-1").get("first").await
    })
    .await;
    say_available(&region, "True").await;
    eventually_available("True").await;
    say_available(&region, "False").await;
    eventually_available("False").await;
    region.stop().await;
}

/// What the namespace controller would do once the namespace is empty.
async fn finalize(region: &Region, name: &str) {
    // Whoever makes service accounts and such is not there, so nothing else is in it.
    let config_maps =
        Api::<ConfigMap>::namespaced(region.client.clone(), name).list(&Default::default()).await;
    assert!(config_maps.unwrap().items.is_empty());
    eventually("the namespace is going", PATIENCE, async || {
        let request = http::Request::get(format!("/api/v1/namespaces/{name}")).body(Vec::new()).unwrap();
        let found: Value = region.client.request(request).await.unwrap();
        match found["metadata"]["deletionTimestamp"].is_string() {
            true => Ok(()),
            false => Err(found.to_string()),
        }
    })
    .await;
    let body = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name }, "spec": { "finalizers": [] },
    });
    let request = http::Request::put(format!("/api/v1/namespaces/{name}/finalize"))
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&body).unwrap())
        .unwrap();
    region.client.request_text(request).await.unwrap();
}
