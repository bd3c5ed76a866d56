use serde_json::json;

use super::*;

fn ship(versions: Value) -> Value {
    json!({
        "spec": {
            "group": "fleet.example.com",
            "names": { "plural": "ships", "kind": "Ship", "shortNames": ["sh"] },
            "scope": "Namespaced",
            "versions": versions,
        },
    })
}

#[test]
fn a_definition_adds_its_served_versions_and_vanishes_with_it() {
    let built_in = Catalogue::built_in(33);
    let definition = ship(json!([
        { "name": "v1", "served": true, "storage": true, "subresources": { "status": {} } },
        { "name": "v1beta1", "served": true, "storage": false },
        { "name": "v1alpha1", "served": false, "storage": false },
    ]));
    let with_ships = built_in.with_custom(&[definition]);

    let ships = with_ships.find("fleet.example.com", "v1", "ships").unwrap();
    assert!(ships.custom && ships.namespaced && ships.status_subresource);
    assert_eq!((ships.singular.as_ref(), ships.list_kind.as_ref()), ("ship", "ShipList"));
    assert!(ships.subresource("status").is_some());
    let beta = with_ships.find("fleet.example.com", "v1beta1", "ships").unwrap();
    assert_eq!(beta.storage_version, "v1");
    assert!(with_ships.find("fleet.example.com", "v1alpha1", "ships").is_none());
    assert!(with_ships.with_custom(&[]).find("fleet.example.com", "v1", "ships").is_none());
    assert!(with_ships.find("", "v1", "pods").is_some());
}

#[test]
fn versions_are_ranked_by_stability_and_then_by_number() {
    let versions = ["v1alpha1", "v2beta1", "v10", "foo", "v1", "v1beta2"];
    let definition = ship(
        versions
            .iter()
            .map(|name| json!({ "name": name, "served": true, "storage": *name == "v1" }))
            .collect(),
    );
    let catalogue = Catalogue::built_in(33).with_custom(&[definition]);
    let group = catalogue.groups().into_iter().find(|group| group.name == "fleet.example.com").unwrap();
    assert_eq!(group.versions, ["v10", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]);
}

#[test]
fn messages_name_a_kind_with_its_group() {
    assert_eq!(built_in("", "pods").qualified(), "pods");
    assert_eq!(built_in("apps", "deployments").qualified(), "deployments.apps");
    assert_eq!(built_in("apps", "deployments").api_version(), "apps/v1");
}
