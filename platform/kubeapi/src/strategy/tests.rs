use serde_json::json;

use super::*;
use crate::catalogue::{Catalogue, built_in};

mod content;

fn context() -> Context {
    Context { now: "2026-01-01T12:00:00.5Z".parse().unwrap(), uid: Uuid::nil() }
}

fn created(resource: &Resource, mut object: Value) -> Value {
    prepare_create(resource, &mut object, &context()).unwrap();
    object
}

fn ships(status: bool) -> Catalogue {
    let subresources = if status { json!({ "status": {} }) } else { json!({}) };
    Catalogue::built_in(33).with_custom(&[json!({ "spec": {
        "group": "fleet.example.com", "names": { "plural": "ships", "kind": "Ship" }, "scope": "Namespaced",
        "versions": [{ "name": "v1", "served": true, "storage": true, "subresources": subresources,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                "spec": { "type": "object", "properties": { "masts": { "type": "integer", "default": 2 } } },
                "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            } } } }],
    } })])
}

#[test]
fn a_new_object_gets_its_identity_from_the_server() {
    let object = created(
        &built_in("apps", "replicasets"),
        json!({
            "metadata": {
                "name": "r", "namespace": "n", "uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z", "generation": 9,
                "deletionTimestamp": "1999-01-01T00:00:00Z", "labels": null, "annotations": {},
            },
            "status": { "replicas": 5 },
        }),
    );
    assert_eq!(
        object["metadata"],
        json!({
            "name": "r", "namespace": "n", "uid": Uuid::nil().to_string(),
            "creationTimestamp": "2026-01-01T12:00:00Z", "generation": 1,
        })
    );
    assert_eq!(
        (object["apiVersion"].as_str(), object["kind"].as_str()),
        (Some("apps/v1"), Some("ReplicaSet"))
    );
    assert_eq!(object["status"], json!({ "replicas": 0 }));
}

#[test]
fn the_generation_counts_what_was_asked_for() {
    for (status_subresource, change, expected) in [
        (true, json!({ "spec": { "masts": 3 } }), 2),
        (true, json!({ "status": { "ready": true } }), 1),
        (true, json!({ "metadata": { "labels": { "a": "b" } } }), 1),
        (false, json!({ "status": { "ready": true } }), 2),
    ] {
        let catalogue = ships(status_subresource);
        let resource = catalogue.find("fleet.example.com", "v1", "ships").unwrap();
        let old = created(resource, json!({ "metadata": { "name": "x" }, "spec": {} }));
        let mut new = old.clone();
        json_patch::merge(&mut new, &change);
        prepare_update(resource, None, &old, &mut new).unwrap();
        assert_eq!(new["metadata"]["generation"], expected, "{change}");
        assert_eq!(new.get("status").is_some(), !status_subresource && change.get("status").is_some());
    }
}

#[test]
fn the_status_endpoint_changes_the_status_and_nothing_else() {
    let catalogue = ships(true);
    let resource = catalogue.find("fleet.example.com", "v1", "ships").unwrap();
    let old = created(resource, json!({ "metadata": { "name": "x" }, "spec": { "masts": 3 } }));
    let mut new = json!({
        "metadata": { "name": "x", "labels": { "a": "b" } }, "spec": { "masts": 9 }, "status": { "ready": true },
    });
    prepare_update(resource, Some("status"), &old, &mut new).unwrap();
    let mut expected = old.clone();
    expected["status"] = json!({ "ready": true });
    assert_eq!(new, expected);
}

#[test]
fn an_update_cannot_change_what_the_server_owns() {
    let resource = built_in("", "configmaps");
    let mut old = created(&resource, json!({ "metadata": { "name": "c", "namespace": "n" } }));
    old["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    old["metadata"]["finalizers"] = json!(["example.com/x"]);
    let mut new = json!({ "metadata": { "name": "other", "namespace": "m", "uid": "y", "finalizers": ["example.com/x", "example.com/y"] }, "data": { "a": "b" } });
    prepare_update(&resource, None, &old, &mut new).unwrap();
    for key in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"] {
        assert_eq!(new["metadata"][key], old["metadata"][key], "{key}");
    }
    let failure = validate(&resource, None, Some(&old), &new).unwrap_err();
    assert!(
        failure.message.contains("no new finalizers can be added if the object is being deleted"),
        "{failure}"
    );
}

#[test]
fn a_namespace_is_finalised_through_its_own_endpoint_only() {
    let resource = built_in("", "namespaces");
    let old = created(&resource, json!({ "metadata": { "name": "n" } }));
    assert_eq!(old["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(old["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    assert_eq!(old["status"]["phase"], "Active");

    let mut new = json!({ "metadata": { "name": "n" }, "spec": { "finalizers": [] } });
    prepare_update(&resource, None, &old, &mut new).unwrap();
    assert_eq!(new["spec"]["finalizers"], json!(["kubernetes"]));

    let mut old = old;
    old["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    let mut new = json!({ "metadata": { "name": "n" }, "spec": { "finalizers": [] } });
    prepare_update(&resource, Some("finalize"), &old, &mut new).unwrap();
    assert_eq!(new["spec"].get("finalizers"), None);
}

#[test]
fn names_have_the_form_their_kind_asks_for() {
    for (group, plural, name, fits) in [
        ("", "pods", "web-0.example", true),
        ("", "pods", "Web", false),
        ("", "pods", "-web", false),
        ("", "namespaces", "a.b", false),
        ("", "namespaces", "0-a", true),
        ("", "services", "0-a", false),
        ("rbac.authorization.k8s.io", "clusterroles", "system:node", true),
        ("rbac.authorization.k8s.io", "clusterroles", "a/b", false),
    ] {
        assert_eq!(names::problem(&built_in(group, plural), name).is_none(), fits, "{plural} {name}");
    }
    let configuration = built_in("", "configmaps");
    for metadata in [
        json!({ "name": "c", "namespace": "n", "labels": { "a/b/c": "x" } }),
        json!({ "name": "c", "namespace": "n", "labels": { "a": "not ok" } }),
        json!({ "namespace": "n" }),
        json!({ "name": "c", "namespace": "n", "ownerReferences": [{ "kind": "Pod" }] }),
    ] {
        let object = created(&configuration, json!({ "metadata": metadata }));
        assert_eq!(validate(&configuration, None, None, &object).unwrap_err().code, 422, "{metadata}");
    }
}

#[test]
fn a_custom_resource_has_the_metadata_of_any_other_object() {
    let catalogue = ships(true);
    let resource = catalogue.find("fleet.example.com", "v1", "ships").unwrap();
    let mut object =
        json!({ "metadata": { "name": "x", "nickname": "y" }, "spec": { "masts": 1, "sails": 2 } });
    assert_eq!(prune(resource, &mut object).unwrap(), ["metadata.nickname", "spec.sails"]);
    let failure = prune(resource, &mut json!({ "metadata": { "finalizers": [1] } })).unwrap_err();
    assert!(
        failure.message.contains("number into Go struct field ObjectMeta.metadata.finalizers of type string"),
        "{failure}"
    );
}
