//! Fields that a work leaves to others.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use pilothouse_crds::is_condition_true;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::engine::{Agent, work};

fn deployment(replicas: u32, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "d"}}, "template": {
            "metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn leaving(condition: &str) -> Value {
    json!([{"resourceIdentifier": {"group": "apps", "resource": "deployments", "name": "d", "namespace": "default"},
        "updateStrategy": {"type": "ServerSideApply", "serverSideApply": {"force": true,
            "ignoreFields": [{"condition": condition, "jsonPaths": [".spec.replicas"]}]}}}])
}

fn found(deployment: &Deployment) -> (i32, String) {
    let spec = deployment.spec.as_ref().unwrap();
    let image = spec.template.spec.as_ref().unwrap().containers[0].image.clone();
    (spec.replicas.unwrap(), image.unwrap())
}

async fn scale(deployments: &Api<Deployment>, patch: Value) {
    let parameters = PatchParams { field_manager: Some("somebody".to_owned()), ..PatchParams::default() };
    deployments.patch("d", &parameters, &Patch::Merge(&patch)).await.unwrap();
}

#[tokio::test]
async fn what_is_left_to_others_stays_as_they_set_it() {
    let cluster = Cluster::start().await;
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), "default");
    let mut wanted = work(json!([deployment(2, "one")]), leaving("OnSpokePresent"));
    // A new agent every time: none of them remembers anything, and no cache is behind.
    let apply = async |wanted: &pilothouse_work::Work| {
        let status = Agent::of(&cluster).apply(wanted).await;
        assert!(is_condition_true(&status.conditions, "Applied"), "{status:?}");
        found(&deployments.get("d").await.unwrap())
    };
    assert_eq!(apply(&wanted).await, (2, "one".to_owned()));
    Arc::make_mut(&mut wanted.spec).workload.manifests = vec![deployment(3, "two")];
    assert_eq!(apply(&wanted).await, (2, "two".to_owned()), "it is there, so that part is left");

    scale(&deployments, json!({"spec": {"replicas": 5}})).await;
    assert_eq!(apply(&wanted).await, (5, "two".to_owned()));
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "drifted"}]}}}});
    scale(&deployments, image).await;
    assert_eq!(apply(&wanted).await, (5, "two".to_owned()), "the rest is put back");
    let before = deployments.get("d").await.unwrap().metadata.resource_version;
    apply(&wanted).await;
    assert_eq!(deployments.get("d").await.unwrap().metadata.resource_version, before, "nothing is written");
}

#[tokio::test]
async fn what_others_changed_is_taken_back_by_a_new_version_only() {
    let cluster = Cluster::start().await;
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), "default");
    let mut wanted = work(json!([deployment(2, "one")]), leaving("OnSpokeChange"));
    let apply = async |wanted: &pilothouse_work::Work| {
        Agent::of(&cluster).apply(wanted).await;
        found(&deployments.get("d").await.unwrap())
    };
    assert_eq!(apply(&wanted).await, (2, "one".to_owned()));
    scale(&deployments, json!({"spec": {"replicas": 5}})).await;
    assert_eq!(apply(&wanted).await, (5, "one".to_owned()));
    Arc::make_mut(&mut wanted.spec).workload.manifests = vec![deployment(3, "one")];
    assert_eq!(apply(&wanted).await, (3, "one".to_owned()));

    Arc::make_mut(&mut wanted.spec).manifest_configs = serde_json::from_value(leaving("Sometimes")).unwrap();
    let status = Agent::of(&cluster).apply(&wanted).await;
    let applied = pilothouse_crds::find_condition(&status.resource_status.manifests[0].conditions, "Applied");
    assert!(applied.unwrap().message.contains("ignoreFields knows no condition `Sometimes`"), "{status:?}");
}
