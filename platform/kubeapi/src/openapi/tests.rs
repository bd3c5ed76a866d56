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
        let document = document(&catalogue, path).unwrap();
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
fn the_index_names_every_document_by_the_hash_of_its_content() {
    let catalogue = catalogue();
    let index = index(&catalogue);
    for (path, entry) in index["paths"].as_object().unwrap() {
        let hash = hash(&document(&catalogue, path).unwrap());
        assert_eq!(entry["serverRelativeURL"], format!("/openapi/v3/{path}?hash={hash}"));
    }
    assert!(index["paths"]["apis/fleet.example.com/v1"].is_object());
    assert_eq!(document(&catalogue, "apis/absent/v1"), None);
}

#[test]
fn a_custom_resource_is_described_by_its_own_schema() {
    let document = document(&catalogue(), "apis/fleet.example.com/v1").unwrap();
    let schema = &document["components"]["schemas"]["com.example.fleet.v1.Ship"];
    assert_eq!(schema["properties"]["spec"]["properties"]["masts"]["type"], "integer");
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Ship");
}
