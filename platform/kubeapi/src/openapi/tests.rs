use serde_json::json;

use super::*;

fn catalogue() -> Catalogue {
    Catalogue::built_in(33).with_custom(&[json!({
        "spec": {
            "group": "fleet.example.com",
            "names": { "plural": "ships", "kind": "Ship" },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": {
                    "type": "object", "description": "What the ship shall be.",
                    "properties": { "masts": { "type": "integer" } },
                } } } },
            }],
        },
    })])
}

/// What kubectl looks for before it applies.
fn patch_of<'a>(document: &'a Value, kind: &str) -> &'a Value {
    let paths = document["paths"].as_object().unwrap();
    let patches = paths.values().filter_map(|path| path.get("patch"));
    patches.into_iter().find(|patch| patch["x-kubernetes-group-version-kind"]["kind"] == kind).unwrap()
}

#[test]
fn kubectl_finds_what_it_needs_to_apply() {
    let catalogue = catalogue();
    for (path, kind, strategic) in
        [("api/v1", "ConfigMap", true), ("apis/fleet.example.com/v1", "Ship", false)]
    {
        let (document, _) = document(&catalogue, path).unwrap();
        let patch = patch_of(&document, kind);
        let parameters = patch["parameters"].as_array().unwrap();
        for name in ["fieldValidation", "dryRun"] {
            assert!(
                parameters.iter().any(|one| one["name"] == name && one["in"] == "query"),
                "{kind}: {name}"
            );
        }
        let bodies = patch["requestBody"]["content"].as_object().unwrap();
        assert_eq!(bodies.contains_key("application/strategic-merge-patch+json"), strategic, "{kind}");
        assert!(bodies.contains_key("application/apply-patch+yaml"));
    }
}

#[test]
fn the_index_names_every_document_by_a_hash() {
    let catalogue = catalogue();
    let index = index(&catalogue);
    for (path, entry) in index["paths"].as_object().unwrap() {
        let (_, hash) = document(&catalogue, path).unwrap();
        assert_eq!(entry["serverRelativeURL"], format!("/openapi/v3/{path}?hash={hash}"));
    }
    assert!(index["paths"]["apis/fleet.example.com/v1"].is_object());
    assert_eq!(document(&catalogue, "apis/absent/v1"), None);
}

#[test]
fn a_custom_resource_is_described_by_its_own_schema() {
    let (document, _) = document(&catalogue(), "apis/fleet.example.com/v1").unwrap();
    let schema = &document["components"]["schemas"]["com.example.fleet.v1.Ship"];
    assert_eq!(schema["properties"]["spec"]["properties"]["masts"]["type"], "integer");
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Ship");
}

/// Every reference in a document that leads nowhere.
fn dangling(value: &Value, document: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get("$ref")
                && document.pointer(target.trim_start_matches('#')).is_none()
            {
                found.push(target.clone());
            }
            fields.values().for_each(|inner| dangling(inner, document, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| dangling(inner, document, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let catalogue = catalogue();
    for path in index(&catalogue)["paths"].as_object().unwrap().keys() {
        let (document, _) = document(&catalogue, path).unwrap();
        let mut found = Vec::new();
        dangling(&document, &document, &mut found);
        assert_eq!(found, Vec::<String>::new(), "{path}");
    }
    let second: Value = serde_json::from_slice(&second::document(&catalogue)).unwrap();
    let mut found = Vec::new();
    dangling(&second, &second, &mut found);
    assert_eq!(found, Vec::<String>::new());
    assert_eq!(second["swagger"], "2.0");
    assert!(!second.to_string().contains("#/components"));
}

#[test]
fn a_built_in_kind_says_how_its_lists_merge() {
    let catalogue = catalogue();
    let (core, _) = document(&catalogue, "api/v1").unwrap();
    let schemas = &core["components"]["schemas"];
    let pod = &schemas["io.k8s.api.core.v1.Pod"];
    assert_eq!(
        pod["x-kubernetes-group-version-kind"][0],
        json!({ "group": "", "version": "v1", "kind": "Pod" })
    );
    assert_eq!(pod["properties"]["kind"]["type"], "string");
    let container = &schemas["io.k8s.api.core.v1.Container"];
    assert_eq!(container["required"], json!(["name"]));
    let ports = &container["properties"]["ports"];
    assert_eq!(ports["x-kubernetes-list-type"], "map");
    assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
    assert_eq!(ports["x-kubernetes-patch-strategy"], "merge");
    let volumes = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["volumes"];
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(
        schemas["io.k8s.api.core.v1.Volume"]["properties"]["hostPath"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.api.core.v1.HostPathVolumeSource"
    );
    assert_eq!(schemas["io.k8s.api.core.v1.ObjectReference"]["x-kubernetes-map-type"], "atomic");
}

#[test]
fn an_object_inside_another_says_what_it_is() {
    let catalogue = Catalogue::built_in(33).with_custom(&[json!({
        "spec": {
            "group": "fleet.example.com", "names": { "plural": "docks", "kind": "Dock" }, "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": { "type": "array", "items": {
                    "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
                } } } } },
            }],
        },
    })]);
    let (document, _) = document(&catalogue, "apis/fleet.example.com/v1").unwrap();
    let inner =
        &document["components"]["schemas"]["com.example.fleet.v1.Dock"]["properties"]["spec"]["items"];
    assert_eq!(inner["required"], json!(["kind", "apiVersion"]));
    assert_eq!(inner["properties"]["kind"]["type"], "string");
    let mut missing = Vec::new();
    dangling(inner, &document, &mut missing);
    assert_eq!(missing, [""; 0]);
}
