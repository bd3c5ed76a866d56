//! Custom resources.

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::runtime::{conditions, wait};
use kube::{Api, Client};
use serde_json::json;

use crate::support::{Cluster, PATIENCE, refused};

fn definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": { "name": "boats.harbour.dev" },
        "spec": {
            "group": "harbour.dev",
            "scope": "Namespaced",
            "names": { "plural": "boats", "kind": "Boat", "singular": "boat", "shortNames": ["bo"] },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {} },
                "additionalPrinterColumns": [{ "name": "Sails", "type": "integer", "jsonPath": ".spec.sails" }],
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["sails"],
                            "properties": {
                                "sails": { "type": "integer", "minimum": 0 },
                                "colour": { "type": "string", "default": "white" },
                            },
                        },
                        "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                    },
                } },
            }],
        },
    }))
    .unwrap()
}

fn boats(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("harbour.dev", "v1", "Boat");
    Api::namespaced_with(client, "default", &ApiResource::from_gvk_with_plural(&kind, "boats"))
}

fn boat(name: &str, spec: serde_json::Value) -> DynamicObject {
    let value =
        json!({ "apiVersion": "harbour.dev/v1", "kind": "Boat", "metadata": { "name": name }, "spec": spec });
    serde_json::from_value(value).unwrap()
}

async fn established(client: &Client) -> Api<CustomResourceDefinition> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition()).await.unwrap();
    let ready =
        wait::await_condition(definitions.clone(), "boats.harbour.dev", conditions::is_crd_established());
    tokio::time::timeout(PATIENCE, ready).await.unwrap().unwrap();
    definitions
}

#[tokio::test]
async fn a_kind_is_served_from_its_definition_to_its_end() {
    let cluster = Cluster::start().await;
    let client = cluster.admin().await;
    let boats = boats(client.clone());
    assert_eq!(refused(boats.list(&ListParams::default()).await).0, 404);
    let definitions = established(&client).await;

    let made = boats
        .create(&PostParams::default(), &boat("ada", json!({ "sails": 2, "anchor": true })))
        .await
        .unwrap();
    assert_eq!(made.data["spec"], json!({ "sails": 2, "colour": "white" }), "defaulted and pruned");
    assert_eq!(made.metadata.generation, Some(1));
    let (code, _, message) =
        refused(boats.create(&PostParams::default(), &boat("bad", json!({ "sails": -1 }))).await);
    assert_eq!(code, 422, "{message}");
    assert!(message.contains("spec.sails"), "{message}");

    let status = Patch::Merge(json!({ "status": { "afloat": true }, "spec": { "sails": 9 } }));
    let afloat = boats.patch_status("ada", &PatchParams::default(), &status).await.unwrap();
    assert_eq!((&afloat.data["status"]["afloat"], &afloat.data["spec"]["sails"]), (&json!(true), &json!(2)));
    assert_eq!(afloat.metadata.generation, Some(1));
    let spec = Patch::Merge(json!({ "spec": { "sails": 3 } }));
    assert_eq!(
        boats.patch("ada", &PatchParams::default(), &spec).await.unwrap().metadata.generation,
        Some(2)
    );

    let groups = client.list_api_groups().await.unwrap();
    assert!(groups.groups.iter().any(|group| group.name == "harbour.dev"));

    definitions.delete("boats.harbour.dev", &DeleteParams::default()).await.unwrap();
    let gone = wait::await_condition(definitions.clone(), "boats.harbour.dev", conditions::is_deleted(""));
    drop(gone);
    pilothouse_test_support::eventually("the kind is gone", PATIENCE, || async {
        match (definitions.get_opt("boats.harbour.dev").await, boats.list(&ListParams::default()).await) {
            (Ok(None), Err(kube::Error::Api(status))) if status.code == 404 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_definition_waits_for_objects_with_finalizers() {
    let cluster = Cluster::start().await;
    let client = cluster.admin().await;
    let definitions = established(&client).await;
    let boats = boats(client.clone());
    let mut held = boat("ada", json!({ "sails": 1 }));
    held.metadata.finalizers = Some(vec!["harbour.dev/moored".to_owned()]);
    boats.create(&PostParams::default(), &held).await.unwrap();
    let watched = kube::runtime::watcher(boats.clone(), kube::runtime::watcher::Config::default());
    definitions.delete("boats.harbour.dev", &DeleteParams::default()).await.unwrap();
    let going = watched.any(|event| async move {
        matches!(event, Ok(kube::runtime::watcher::Event::InitApply(boat) | kube::runtime::watcher::Event::Apply(boat)) if boat.metadata.deletion_timestamp.is_some())
    });
    assert!(tokio::time::timeout(PATIENCE, going).await.unwrap());
    assert!(definitions.get("boats.harbour.dev").await.is_ok());
    assert_eq!(
        refused(boats.create(&PostParams::default(), &boat("bob", json!({ "sails": 1 }))).await).0,
        405
    );
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    boats.patch("ada", &PatchParams::default(), &release).await.unwrap();
    pilothouse_test_support::eventually("the definition is gone", PATIENCE, || async {
        match definitions.get_opt("boats.harbour.dev").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    cluster.stop().await;
}
