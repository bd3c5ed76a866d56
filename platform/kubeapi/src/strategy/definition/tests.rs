use serde_json::{Value, json};

use super::{defaults, initial_status, remember_storage, validate};

fn definition(version: Value, spec: Value) -> Value {
    let mut first = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "properties": { "s": { "type": "string" }, "n": { "type": "number" } } },
        } } },
    });
    merge(&mut first, version);
    let mut object = json!({
        "metadata": { "name": "things.a.example.com" },
        "spec": {
            "group": "a.example.com", "scope": "Namespaced",
            "names": { "plural": "things", "kind": "Thing" }, "versions": [first],
        },
    });
    merge(&mut object["spec"], spec);
    defaults(&mut object);
    initial_status(&mut object);
    object
}

fn merge(into: &mut Value, more: Value) {
    for (name, value) in more.as_object().into_iter().flatten() {
        into[name] = value.clone();
    }
}

fn lines(object: &Value, old: Option<&Value>) -> Vec<String> {
    let causes = validate(old, object);
    causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn what_is_wrong_with_a_definition_is_told_where_it_is() {
    let nothing = || json!({});
    assert_eq!(lines(&definition(nothing(), nothing()), None), [""; 0]);
    for (version, spec, expected) in [
        (
            json!({ "selectableFields": [{ "jsonPath": ".spec.n" }] }),
            nothing(),
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec.n\": must point to a field of type string",
        ),
        (
            json!({ "selectableFields": [{ "jsonPath": ".spec.x" }] }),
            nothing(),
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec.x\": is an invalid path: does not refer",
        ),
        (
            json!({ "selectableFields": [{ "jsonPath": ".metadata.name" }] }),
            nothing(),
            "spec.selectableFields[0].jsonPath: Invalid value",
        ),
        (
            json!({ "subresources": { "scale": { "specReplicasPath": ".status.x", "statusReplicasPath": ".status.y" } } }),
            nothing(),
            "spec.subresources.scale.specReplicasPath: Invalid value: \".status.x\": should be a json path under .spec",
        ),
        (
            json!({ "additionalPrinterColumns": [{ "name": "A", "type": "string", "jsonPath": "a" }] }),
            nothing(),
            "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"a\": must be a simple json path starting with .",
        ),
        (
            json!({ "deprecationWarning": "old" }),
            nothing(),
            "spec.versions[0].deprecationWarning: Invalid value: \"old\": can only be set for deprecated versions",
        ),
        (
            nothing(),
            json!({ "names": { "plural": "things", "kind": "A Thing" } }),
            "spec.names.kind: Invalid value: \"A Thing\": may have mixed case",
        ),
        (
            nothing(),
            json!({ "names": { "plural": "things", "kind": "Thing", "shortNames": ["T"] } }),
            "spec.names.shortNames[0]: Invalid value: \"T\"",
        ),
        (nothing(), json!({ "scope": null }), "spec.scope: Required value"),
        (
            nothing(),
            json!({ "conversion": { "strategy": "Webhook" } }),
            "spec.conversion.webhookClientConfig: Required value",
        ),
        (
            nothing(),
            json!({ "conversion": { "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": { "url": "https://a.example.com" } } } }),
            "spec.conversion.strategy: Forbidden: conversion webhooks are not called by this server",
        ),
    ] {
        let found = lines(&definition(version, spec), None);
        assert!(found.iter().any(|line| line.starts_with(expected)), "{expected}: {found:?}");
    }
}

#[test]
fn a_new_storage_version_is_remembered_and_an_old_one_is_kept_until_it_is_forgotten() {
    let old = definition(json!({}), json!({}));
    let mut new = old.clone();
    let mut second = new["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    new["spec"]["versions"][0]["storage"] = json!(false);
    new["spec"]["versions"].as_array_mut().unwrap().push(second);
    remember_storage(&mut new);
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(lines(&new, Some(&old)), [""; 0]);
    let mut without = new.clone();
    without["spec"]["versions"].as_array_mut().unwrap().remove(0);
    let found = lines(&without, Some(&new));
    assert!(
        found[0].starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions"),
        "{found:?}"
    );
}
