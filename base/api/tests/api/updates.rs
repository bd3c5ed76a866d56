//! What may change, what may not, and what a patch does.

use pilothouse_api::{Invalid, Target, Version, hub};
use serde_json::{Value, json};

use crate::{
    cluster, cluster_body, network, node_pool, node_pool_body, node_pool_target, problems, set, target,
};

const IMMUTABLE: &str = "Forbidden: field is immutable";

fn patch(existing: &hub::Cluster, body: &Value) -> Result<hub::Cluster, Invalid> {
    let target = Target { existing: Some(existing), ..target("First") };
    Version::V20261001.cluster_patch(body.to_string().as_bytes(), &target)
}

#[test]
fn what_is_made_once_cannot_be_changed() {
    let existing = cluster();
    for (pointer, value) in [
        ("/properties/network/networkType", json!("Other")),
        ("/properties/network/podCidr", json!("10.132.0.0/14")),
        ("/properties/network/serviceCidr", json!("172.31.0.0/16")),
        ("/properties/network/machineCidr", json!("10.1.0.0/16")),
        ("/properties/network/hostPrefix", json!(24)),
        ("/properties/dns/baseDomainPrefix", json!("other")),
        ("/properties/api/visibility", json!("Private")),
        ("/properties/ingress/type", json!("Private")),
        ("/properties/cryptoRestrictions", json!("FIPS")),
        ("/properties/clusterImageRegistry/state", json!("Disabled")),
        ("/properties/platform/managedResourceGroup", json!("other")),
        ("/properties/platform/subnetId", json!(network("virtualNetworks", "net/subnets/other"))),
        (
            "/properties/platform/vnetIntegrationSubnetId",
            json!(network("virtualNetworks", "net/subnets/other")),
        ),
        ("/properties/platform/networkSecurityGroupId", json!(network("networkSecurityGroups", "other"))),
    ] {
        let mut body = cluster_body();
        set(&mut body, pointer, value.clone());
        let put = Target { existing: Some(&existing), ..target("first") };
        let field = pointer.trim_start_matches('/').replace('/', ".");
        let result = Version::V20261001.cluster_put(body.to_string().as_bytes(), &put);
        assert_eq!(problems(result), [(field.clone(), IMMUTABLE.to_owned())]);
        let mut change = json!({});
        set(&mut change, pointer, value);
        assert_eq!(problems(patch(&existing, &change)), [(field, IMMUTABLE.to_owned())]);
    }
}

#[test]
fn ids_in_another_spelling_are_no_change() {
    let existing = cluster();
    let mut body = cluster_body();
    let subnet = network("virtualNetworks", "net/subnets/nodes").to_uppercase();
    body["properties"]["platform"]["subnetId"] = json!(subnet.replace("/SUBSCRIPTIONS", "/subscriptions"));
    let target = Target { existing: Some(&existing), ..target("First") };
    assert!(Version::V20261001.cluster_put(body.to_string().as_bytes(), &target).is_ok());
}

#[test]
fn what_may_change_changes() {
    let existing = cluster();
    let changed = patch(
        &existing,
        &json!({"properties": {
            "nodeDrainTimeoutMinutes": 7,
            "autoscaling": {"maxNodesTotal": 9},
            "api": {"authorizedCidrs": ["10.0.0.0/8"]},
            "imageDigestMirrors": [{"source": "a.test", "mirrors": ["b.test"]}],
            "platform": {"containerRegistry": {"managedIdentity": crate::identity("puller")}},
        }}),
    )
    .unwrap();
    assert_eq!(changed.spec.node_drain_timeout_minutes, 7);
    assert_eq!(changed.spec.autoscaling.max_nodes_total, 9);
    assert_eq!(changed.spec.autoscaling.max_pod_grace_period_seconds, 600);
    assert_eq!(changed.spec.api.authorized_cidrs.as_deref(), Some(&["10.0.0.0/8".to_owned()][..]));
    assert!(changed.spec.platform.container_registry_identity.is_some());
    assert_eq!(
        patch(&changed, &json!({"properties": {"api": {"authorizedCidrs": null}}})).unwrap().spec.api,
        existing.spec.api
    );
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
fn a_replacement_starts_from_the_defaults_and_keeps_only_what_the_service_chose() {
    let mut existing = cluster();
    existing.spec.base_domain_prefix = Some("chosen".to_owned());
    existing.spec.platform.managed_resource_group = Some("chosen-too".to_owned());
    existing.spec.autoscaling.max_nodes_total = 9;
    existing.tags = [("a".to_owned(), "1".to_owned())].into();
    let put = |body: Value| {
        let target = Target { existing: Some(&existing), ..target("First") };
        Version::V20261001.cluster_put(body.to_string().as_bytes(), &target)
    };
    let replaced = put(cluster_body()).unwrap();
    assert_eq!(replaced.spec.base_domain_prefix, existing.spec.base_domain_prefix);
    assert_eq!(replaced.spec.platform.managed_resource_group, existing.spec.platform.managed_resource_group);
    assert_eq!(replaced.spec.autoscaling.max_nodes_total, 0);
    assert_eq!(replaced.tags, existing.tags);
    let mut untagged = cluster_body();
    untagged["tags"] = json!({});
    assert!(put(untagged).unwrap().tags.is_empty());
}

#[test]
fn patches_merge_except_for_tags_which_are_replaced() {
    let mut existing = cluster();
    existing.tags = [("a".to_owned(), "1".to_owned())].into();
    let kept = patch(&existing, &json!({"properties": {"nodeDrainTimeoutMinutes": 7}})).unwrap();
    assert_eq!(kept.tags, existing.tags);
    let changed = patch(&existing, &json!({"tags": {"b": "2"}})).unwrap();
    assert_eq!(changed.tags, [("b".to_owned(), "2".to_owned())].into());
    assert_eq!(changed.spec, existing.spec);
    assert!(patch(&existing, &json!({"tags": null})).unwrap().tags.is_empty());
}

#[test]
fn a_patch_cannot_take_away_what_always_has_a_value() {
    let existing = cluster();
    let null = "Required value: field cannot be null";
    for (path, first) in [
        ("version.id", Version::V20251223Preview),
        ("version.channelGroup", Version::V20240610Preview),
        ("network.hostPrefix", Version::V20240610Preview),
        ("autoscaling.maxNodesTotal", Version::V20240610Preview),
        ("autoscaling.podPriorityThreshold", Version::V20240610Preview),
        ("nodeDrainTimeoutMinutes", Version::V20240610Preview),
        ("platform.vnetIntegrationSubnetId", Version::V20251223Preview),
        ("platform.outboundType", Version::V20240610Preview),
        ("cryptoRestrictions", Version::V20260630Preview),
    ] {
        for version in Version::ALL {
            let mut body = json!({});
            set(&mut body, &format!("/properties/{}", path.replace('.', "/")), Value::Null);
            let target = Target { existing: Some(&existing), ..target("First") };
            let found = version.cluster_patch(body.to_string().as_bytes(), &target);
            if version < first {
                assert_eq!(found.unwrap(), existing, "{version:?} {path}");
            } else {
                assert_eq!(problems(found), [(format!("properties.{path}"), null.to_owned())], "{version:?}");
            }
        }
    }
    let pool = node_pool();
    for path in
        ["version.id", "autoRepair", "platform.osDisk.sizeGiB", "platform.osDisk.diskType", "platform.vmSize"]
    {
        let mut body = json!({});
        set(&mut body, &format!("/properties/{}", path.replace('.', "/")), Value::Null);
        let target = Target { existing: Some(&pool), ..node_pool_target("workers") };
        let found = Version::V20261001.node_pool_patch(body.to_string().as_bytes(), &target, &cluster());
        assert_eq!(problems(found), [(format!("properties.{path}"), null.to_owned())]);
    }
}

#[test]
fn a_node_pool_keeps_its_version_and_its_machines() {
    let existing = node_pool();
    let mut body = node_pool_body();
    body["properties"]["version"] = json!(null);
    body["properties"]["replicas"] = json!(5);
    let target = Target { existing: Some(&existing), ..node_pool_target("workers") };
    let put =
        |body: &Value| Version::V20261001.node_pool_put(body.to_string().as_bytes(), &target, &cluster());
    let changed = put(&body).unwrap();
    assert_eq!((changed.spec.replicas, changed.spec.version.id.as_deref()), (5, Some("4.20.8")));
    for (pointer, value) in [
        ("/properties/platform/vmSize", json!("Standard_D4s_v3")),
        ("/properties/platform/availabilityZone", json!("1")),
        ("/properties/platform/enableEncryptionAtHost", json!(true)),
        ("/properties/platform/osDisk/sizeGiB", json!(65)),
        ("/properties/autoRepair", json!(false)),
    ] {
        let mut changed = body.clone();
        set(&mut changed, pointer, value);
        let field = pointer.trim_start_matches('/').replace('/', ".");
        assert_eq!(problems(put(&changed)), [(field, IMMUTABLE.to_owned())]);
    }
    let scaled = Version::V20261001.node_pool_patch(
        b"{\"properties\":{\"replicas\":null,\"autoScaling\":{\"min\":1,\"max\":2}}}",
        &target,
        &cluster(),
    );
    assert_eq!(scaled.unwrap().spec.auto_scaling, Some(hub::Scale { min: 1, max: 2 }));
}
