use serde_json::json;

use super::*;
use crate::catalogue::{Catalogue, built_in};

mod apply;
mod strategic;

const NOW: &str = "2026-01-01T12:00:00Z";

fn patched(kind: PatchKind, resource: &Resource, current: &Value, body: Value) -> Result<Value, Failure> {
    let body = body.to_string();
    let patch = Patch {
        kind,
        body: body.as_bytes(),
        subresource: None,
        manager: "tester",
        name: "x",
        force: false,
        now: NOW.parse().unwrap(),
    };
    apply(resource, Some(current), &patch)
}

/// A custom kind with a keyed list, a set and an atomic map.
fn ships() -> Catalogue {
    Catalogue::built_in(33).with_custom(&[json!({ "spec": {
        "group": "fleet.example.com", "names": { "plural": "ships", "kind": "Ship" }, "scope": "Namespaced",
        "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
            "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                "spec": { "type": "object", "properties": {
                    "masts": { "type": "integer" },
                    "name": { "type": "string" },
                    "crew": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "role"],
                        "items": { "type": "object", "properties": {
                            "name": { "type": "string" },
                            "role": { "type": "string", "default": "sailor" },
                            "age": { "type": "integer" },
                        } },
                    },
                    "flags": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
                    "cargo": { "type": "object", "x-kubernetes-map-type": "atomic", "x-kubernetes-preserve-unknown-fields": true },
                    "notes": { "type": "array", "items": { "type": "string" } },
                } },
                "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            } } },
        }],
    } })])
}

#[test]
fn json_patches_are_carried_out_or_refused_as_a_whole() {
    let pods = built_in("", "pods");
    let pod = json!({ "metadata": { "name": "p", "labels": { "a": "1" } } });
    let operations = json!([
        { "op": "test", "path": "/metadata/labels/a", "value": "1" },
        { "op": "replace", "path": "/metadata/labels/a", "value": "2" },
        { "op": "add", "path": "/metadata/labels/b", "value": "3" },
    ]);
    let changed = patched(PatchKind::Json, &pods, &pod, operations).unwrap();
    assert_eq!(changed["metadata"]["labels"], json!({ "a": "2", "b": "3" }));

    let failed = json!([{ "op": "test", "path": "/metadata/labels/a", "value": "x" }]);
    assert_eq!(patched(PatchKind::Json, &pods, &pod, failed).unwrap_err().code, 422);
    let malformed = json!([{ "op": "frobnicate", "path": "/x" }]);
    assert_eq!(patched(PatchKind::Json, &pods, &pod, malformed).unwrap_err().code, 422);
    let absent = json!([{ "op": "replace", "path": "/metadata/labels/c", "value": "4" }]);
    let changed = patched(PatchKind::Json, &pods, &pod, absent).unwrap();
    assert_eq!(changed["metadata"]["labels"], json!({ "a": "1", "c": "4" }));
}

#[test]
fn merge_patches_replace_lists_and_delete_by_null() {
    let pods = built_in("", "pods");
    let pod = json!({ "spec": { "a": 1, "list": [1, 2], "gone": true } });
    let changed =
        patched(PatchKind::Merge, &pods, &pod, json!({ "spec": { "list": [3], "gone": null } })).unwrap();
    assert_eq!(changed, json!({ "spec": { "a": 1, "list": [3] } }));
    assert_eq!(patched(PatchKind::Merge, &pods, &pod, json!([])).unwrap_err().code, 400);
}

#[test]
fn custom_resources_have_no_strategic_merge() {
    let catalogue = ships();
    let resource = catalogue.find("fleet.example.com", "v1", "ships").unwrap();
    let failure = patched(PatchKind::Strategic, resource, &json!({}), json!({})).unwrap_err();
    assert_eq!(failure.code, 415);
}
