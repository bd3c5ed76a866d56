use serde_json::json;

use super::*;

#[test]
fn both_forms_of_discovery_tell_the_same() {
    let catalogue = Catalogue::built_in(33);
    for core in [true, false] {
        for item in aggregated(&catalogue, core)["items"].as_array().unwrap() {
            let group = item["metadata"]["name"].as_str().unwrap_or_default();
            for version in item["versions"].as_array().unwrap() {
                let name = version["version"].as_str().unwrap();
                let listed = api_resource_list(&catalogue, group, name).unwrap();
                let mut expected = Vec::new();
                for resource in version["resources"].as_array().unwrap() {
                    let plural = resource["resource"].as_str().unwrap();
                    expected.push((plural.to_owned(), resource["verbs"].clone()));
                    for part in resource["subresources"].as_array().into_iter().flatten() {
                        let name = format!("{plural}/{}", part["subresource"].as_str().unwrap());
                        expected.push((name, part["verbs"].clone()));
                    }
                }
                let found: Vec<_> = listed["resources"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|resource| {
                        (resource["name"].as_str().unwrap().to_owned(), resource["verbs"].clone())
                    })
                    .collect();
                assert_eq!(found, expected, "{group}/{name}");
            }
        }
    }
}

#[test]
fn a_scale_says_that_it_is_of_another_group() {
    let listed = api_resource_list(&Catalogue::built_in(33), "apps", "v1").unwrap();
    let resources = listed["resources"].as_array().unwrap();
    let scale = resources.iter().find(|one| one["name"] == "deployments/scale").unwrap();
    assert_eq!(
        (&scale["kind"], &scale["group"], &scale["version"]),
        (&json!("Scale"), &json!("autoscaling"), &json!("v1"))
    );
    let deployments = resources.iter().find(|one| one["name"] == "deployments").unwrap();
    assert_eq!(deployments["shortNames"], json!(["deploy"]));
    assert_eq!(deployments["storageVersionHash"], "8aSe+NMegvE=");
}

#[test]
fn the_core_group_is_under_api_and_nowhere_else() {
    let catalogue = Catalogue::built_in(33);
    assert_eq!(api_versions(&catalogue, "10.0.0.1:6443")["versions"], json!(["v1"]));
    let groups = api_group_list(&catalogue);
    assert!(groups["groups"].as_array().unwrap().iter().all(|group| group["name"] != ""));
    assert_eq!(api_group(&catalogue, "apps").unwrap()["preferredVersion"]["groupVersion"], "apps/v1");
    assert_eq!(api_group(&catalogue, ""), None);
    assert_eq!(api_resource_list(&catalogue, "apps", "v2"), None);
}
