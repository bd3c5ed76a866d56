use pilothouse_api::{Target, Version, hub};
use serde_json::{Value, json};

use crate::{cluster, cluster_body, network, node_pool, node_pool_body, set, target};

fn problems(result: Result<hub::Cluster, pilothouse_api::Invalid>) -> Vec<(String, String)> {
    result.unwrap_err().0.into_iter().map(|problem| (problem.target, problem.message)).collect()
}

#[test]
fn what_is_made_once_cannot_be_changed() {
    let existing = cluster();
    for (pointer, value, field) in [
        ("/properties/network/serviceCidr", json!("172.31.0.0/16"), "properties.network.serviceCidr"),
        ("/properties/dns/baseDomainPrefix", json!("other"), "properties.dns.baseDomainPrefix"),
        ("/properties/api/visibility", json!("Private"), "properties.api.visibility"),
        ("/properties/ingress/type", json!("Private"), "properties.ingress.type"),
        ("/properties/cryptoRestrictions", json!("FIPS"), "properties.cryptoRestrictions"),
        (
            "/properties/clusterImageRegistry/state",
            json!("Disabled"),
            "properties.clusterImageRegistry.state",
        ),
        (
            "/properties/platform/subnetId",
            json!(network("virtualNetworks", "net/subnets/other")),
            "properties.platform.subnetId",
        ),
    ] {
        let mut body = cluster_body();
        set(&mut body, pointer, value);
        let target = Target { existing: Some(&existing), ..target("first") };
        let result = Version::V20261001.cluster_put(body.to_string().as_bytes(), &target);
        assert_eq!(problems(result), [(field.to_owned(), "Forbidden: field is immutable".to_owned())]);
    }
}

#[test]
fn versions_go_up_one_minor_at_a_time() {
    let mut existing = cluster();
    existing.spec.version.id = Some("4.21".to_owned());
    let patch = |version: &str| {
        let body = json!({"properties": {"version": {"id": version}}}).to_string();
        Version::V20261001.cluster_patch(body.as_bytes(), &existing)
    };
    assert!(patch("4.21").is_ok() && patch("4.22").is_ok());
    assert!(problems(patch("4.20"))[0].1.contains("must not be older than 4.21"));
    assert!(problems(patch("4.23"))[0].1.contains("must not skip"));
}

#[test]
fn an_older_version_keeps_what_it_cannot_see() {
    let mut body = cluster_body();
    body["properties"]["ingress"] = json!({"type": "Private"});
    body["properties"]["imageDigestMirrors"] = json!([{"source": "a.test", "mirrors": ["b.test"]}]);
    let existing = Version::V20261001.cluster_put(body.to_string().as_bytes(), &target("First")).unwrap();
    let mut old: Value = Version::V20240610Preview.cluster_write(&existing);
    old["properties"]["nodeDrainTimeoutMinutes"] = json!(5);
    let target = Target { existing: Some(&existing), ..target("First") };
    let changed = Version::V20240610Preview.cluster_put(old.to_string().as_bytes(), &target).unwrap();
    let mut expected = existing.clone();
    expected.spec.node_drain_timeout_minutes = 5;
    assert_eq!(changed, expected);
}

#[test]
fn patches_merge_except_for_tags_which_are_replaced() {
    let mut existing = cluster();
    existing.tags = [("a".to_owned(), "1".to_owned())].into();
    let patch = |body: Value| Version::V20261001.cluster_patch(body.to_string().as_bytes(), &existing);
    assert_eq!(patch(json!({"properties": {"nodeDrainTimeoutMinutes": 7}})).unwrap().tags, existing.tags);
    let changed = patch(json!({"tags": {"b": "2"}})).unwrap();
    assert_eq!(changed.tags, [("b".to_owned(), "2".to_owned())].into());
    assert_eq!(changed.spec, existing.spec);
    assert!(patch(json!({"tags": null})).unwrap().tags.is_empty());
    assert_eq!(
        problems(patch(json!({"properties": {"network": {"hostPrefix": null}}}))),
        [("properties.network.hostPrefix".to_owned(), "Required value: field cannot be null".to_owned())]
    );
}

#[test]
fn a_node_pool_keeps_its_version_and_its_machines() {
    let existing = node_pool();
    let mut body = node_pool_body();
    body["properties"]["version"] = json!(null);
    body["properties"]["replicas"] = json!(5);
    let target = Target { id: existing.id.clone(), location: String::new(), existing: Some(&existing) };
    let changed = Version::V20261001.node_pool_put(body.to_string().as_bytes(), &target, &cluster()).unwrap();
    assert_eq!((changed.spec.replicas, changed.spec.version.id.as_deref()), (5, Some("4.20.8")));
    body["properties"]["platform"]["vmSize"] = json!("Standard_D4s_v3");
    let refused =
        Version::V20261001.node_pool_put(body.to_string().as_bytes(), &target, &cluster()).unwrap_err();
    assert_eq!(refused.0[0].target, "properties.platform.vmSize");
    assert!(
        Version::V20261001
            .node_pool_patch(b"{\"properties\":{\"replicas\":0}}", &existing, &cluster())
            .is_ok()
    );
}
