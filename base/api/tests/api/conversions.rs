use std::collections::BTreeMap;

use pilothouse_api::{Target, Version, hub};
use pilothouse_arm::ApiVersion;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::strategies::{clusters, external_auths, node_pools};
use crate::{
    cluster, cluster_body, external_auth_target, network, node_pool, node_pool_body, node_pool_target, target,
};

/// The cluster without what only the service sets, as it comes out of a request.
fn asked(mut cluster: hub::Cluster) -> hub::Cluster {
    cluster.status = hub::ClusterStatus::default();
    cluster
}

proptest! {
    // Each case goes through every version, most through every pair of them.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_newest_version_shows_everything_that_a_cluster_is(cluster in clusters()) {
        let body = Version::V20261001.cluster_write(&cluster).to_string();
        let again = Version::V20261001.cluster_put(body.as_bytes(), &target("First")).unwrap();
        prop_assert_eq!(again, asked(cluster));
    }

    #[test]
    fn writing_back_what_was_read_changes_nothing_in_any_version(cluster in clusters()) {
        for version in Version::ALL {
            let body = version.cluster_write(&cluster).to_string();
            let target = Target { existing: Some(&cluster), ..target("FIRST") };
            prop_assert_eq!(&version.cluster_put(body.as_bytes(), &target).unwrap(), &cluster, "{:?}", version);
            prop_assert_eq!(&version.cluster_patch(b"{}", &target).unwrap(), &cluster, "{:?}", version);
        }
    }

    #[test]
    fn a_cluster_that_one_version_makes_is_shown_and_kept_by_all(cluster in clusters()) {
        for maker in Version::ALL {
            let body = maker.cluster_write(&cluster).to_string();
            // The first version has no second subnet, without which nothing can be private.
            let Ok(made) = maker.cluster_put(body.as_bytes(), &target("First")) else {
                prop_assert!(maker == Version::V20240610Preview
                    && cluster.spec.api.visibility == hub::Visibility::Private);
                continue;
            };
            for reader in Version::ALL {
                let shown = reader.cluster_write(&made).to_string();
                let target = Target { existing: Some(&made), ..target("First") };
                prop_assert_eq!(&reader.cluster_put(shown.as_bytes(), &target).unwrap(), &made, "{:?} {:?}", maker, reader);
            }
        }
    }

    #[test]
    fn node_pools_survive_every_version_too(pool in node_pools()) {
        for version in Version::ALL {
            let body = version.node_pool_write(&pool).to_string();
            let target = Target { existing: Some(&pool), ..node_pool_target("WORKERS") };
            prop_assert_eq!(&version.node_pool_put(body.as_bytes(), &target, &cluster()).unwrap(), &pool);
            prop_assert_eq!(&version.node_pool_patch(b"{}", &target, &cluster()).unwrap(), &pool);
            let made = version.node_pool_put(body.as_bytes(), &node_pool_target("workers"), &cluster()).unwrap();
            for reader in Version::ALL {
                let shown = reader.node_pool_write(&made).to_string();
                let target = Target { existing: Some(&made), ..node_pool_target("workers") };
                prop_assert_eq!(&reader.node_pool_put(shown.as_bytes(), &target, &cluster()).unwrap(), &made);
            }
            if version > Version::V20240610Preview {
                prop_assert_eq!(made.spec, pool.spec.clone());
            }
        }
    }

    #[test]
    fn external_authentications_survive_every_version_too(auth in external_auths()) {
        for version in Version::ALL {
            let body = version.external_auth_write(&auth).to_string();
            let target = Target { existing: Some(&auth), ..external_auth_target("SSO") };
            prop_assert_eq!(&version.external_auth_put(body.as_bytes(), &target).unwrap(), &auth);
            prop_assert_eq!(&version.external_auth_patch(b"{}", &target).unwrap(), &auth);
            let made = version.external_auth_put(body.as_bytes(), &external_auth_target("sso")).unwrap();
            prop_assert_eq!(made.spec, auth.spec.clone());
        }
    }

    #[test]
    fn what_is_stored_is_read_again(cluster in clusters(), pool in node_pools(), auth in external_auths()) {
        let text = serde_json::to_string(&(&cluster, &pool, &auth)).unwrap();
        type All = (hub::Cluster, hub::NodePool, hub::ExternalAuth);
        prop_assert_eq!(serde_json::from_str::<All>(&text).unwrap(), (cluster, pool, auth));
    }
}

#[test]
fn what_is_absent_has_its_default_and_what_is_read_only_is_ignored() {
    let mut body = cluster_body();
    body["properties"]["provisioningState"] = json!("Succeeded");
    body["properties"]["api"] = json!({"url": "https://evil.test"});
    body["systemData"] = json!("nonsense");
    body["unknown"] = json!(1);
    let cluster = Version::V20261001.cluster_put(body.to_string().as_bytes(), &target("First")).unwrap();
    assert_eq!(cluster.location, "here");
    assert_eq!(cluster.status, hub::ClusterStatus::default());
    assert_eq!(cluster.spec.network, hub::Network::default());
    assert_eq!(cluster.spec.autoscaling, hub::Autoscaling::default());
    assert_eq!(cluster.tags, BTreeMap::new());
    let shown = Version::V20261001.cluster_write(&cluster);
    assert_eq!(shown["type"], "Microsoft.RedHatOpenShift/hcpOpenShiftClusters");
    assert_eq!(shown["name"], "First");
    assert_eq!(shown["properties"]["network"]["podCidr"], "10.128.0.0/14");
    assert_eq!(shown["properties"]["provisioningState"], "Accepted");
    assert_eq!(shown["properties"]["console"], Value::Null, "there is none");
}

/// What each version says about a cluster and a node pool that have everything.
#[test]
fn every_version_shows_what_it_knows_and_no_more() {
    let mut cluster = cluster();
    cluster.spec.etcd.customer_key = Some(hub::CustomerKey {
        encryption_type: hub::EncryptionType::Kms,
        vault_type: hub::KeyVaultType::ManagedHsm,
        vault_name: "vault".to_owned(),
        visibility: hub::Visibility::Private,
        name: "key".to_owned(),
        version: "1".to_owned(),
    });
    cluster.spec.image_digest_mirrors =
        vec![hub::ImageDigestMirror { source: "a.test".to_owned(), mirrors: vec!["b.test".to_owned()] }];
    cluster.spec.platform.container_registry_identity = Some(crate::identity("puller").parse().unwrap());
    cluster.status.active_versions = vec!["4.20".to_owned()];
    cluster.status.conditions = vec![hub::Condition {
        kind: "Available".to_owned(),
        status: hub::ConditionStatus::True,
        last_transition_time: "2026-11-15T00:00:00Z".to_owned(),
        reason: "AsExpected".to_owned(),
        message: String::new(),
    }];
    let mut pool = node_pool();
    pool.status.conditions = cluster.status.conditions.clone();
    pool.status.active_versions = vec!["4.20.8".to_owned()];
    let kms = "/properties/etcd/dataEncryption/customerManaged/kms";
    // The member, and the first version that has it.
    let in_cluster: &[(&str, Version)] = &[
        ("/properties/platform/subnetId", Version::V20240610Preview),
        ("/properties/platform/vnetIntegrationSubnetId", Version::V20251223Preview),
        ("/properties/imageDigestMirrors/0/source", Version::V20251223Preview),
        (&format!("{kms}/vaultName"), Version::V20251223Preview),
        (&format!("{kms}/visibility"), Version::V20251223Preview),
        ("/properties/ingress/type", Version::V20260630Preview),
        ("/properties/cryptoRestrictions", Version::V20260630Preview),
        ("/properties/status/conditions/0/type", Version::V20260630Preview),
        ("/properties/status/activeVersions/0/version", Version::V20261001),
        ("/properties/platform/containerRegistry/managedIdentity", Version::V20261001),
        (&format!("{kms}/keyVaultType"), Version::V20261001),
    ];
    let in_pool = [
        ("/properties/platform/osDisk/diskType", Version::V20251223Preview),
        ("/properties/status/conditions/0/type", Version::V20260630Preview),
        ("/properties/status/activeVersions/0/version", Version::V20261001),
    ];
    for version in Version::ALL {
        let (shown, shown_pool) = (version.cluster_write(&cluster), version.node_pool_write(&pool));
        for (pointer, first) in in_cluster {
            assert_eq!(shown.pointer(pointer).is_some(), version >= *first, "{version:?} {pointer}");
        }
        for (pointer, first) in in_pool {
            assert_eq!(shown_pool.pointer(pointer).is_some(), version >= first, "{version:?} {pointer}");
        }
        let vault = shown.pointer(&format!("{kms}/activeKey/vaultName")).is_some();
        assert_eq!(vault, version == Version::V20240610Preview);
    }
}

#[test]
fn the_first_version_leaves_out_zeros_and_does_not_lose_them() {
    let mut cluster = cluster();
    cluster.spec.autoscaling.pod_priority_threshold = 0;
    let first = Version::V20240610Preview;
    let shown = first.cluster_write(&cluster);
    assert_eq!(shown.pointer("/properties/nodeDrainTimeoutMinutes"), None);
    assert_eq!(shown.pointer("/properties/autoscaling/podPriorityThreshold"), None);
    assert_eq!(shown.pointer("/properties/autoscaling/maxPodGracePeriodSeconds"), Some(&json!(600)));
    let later = Version::V20251223Preview.cluster_write(&cluster);
    assert_eq!(later.pointer("/properties/nodeDrainTimeoutMinutes"), Some(&json!(0)));
    assert_eq!(later.pointer("/properties/autoscaling/podPriorityThreshold"), Some(&json!(0)));
    let target = Target { existing: Some(&cluster), ..target("First") };
    let again = first.cluster_put(shown.to_string().as_bytes(), &target).unwrap();
    assert_eq!(again.spec.autoscaling.pod_priority_threshold, 0);

    let mut pool = node_pool();
    pool.spec.auto_repair = false;
    assert_eq!(first.node_pool_write(&pool).pointer("/properties/autoRepair"), None);
    assert_eq!(
        Version::V20261001.node_pool_write(&pool).pointer("/properties/autoRepair"),
        Some(&json!(false))
    );
}

#[test]
fn the_spelling_of_the_latest_request_is_shown() {
    let existing = cluster();
    let body = Version::V20261001.cluster_write(&existing).to_string();
    let again = Target { existing: Some(&existing), ..target("FIRST") };
    let changed = Version::V20261001.cluster_put(body.as_bytes(), &again).unwrap();
    assert_eq!(changed.id.as_str(), cluster_id_text("FIRST"));
    assert_eq!(Version::V20261001.cluster_write(&changed)["name"], "FIRST");
    let pool = Target { existing: Some(&node_pool()), ..node_pool_target("Workers") };
    let changed = Version::V20261001.node_pool_patch(b"{}", &pool, &cluster()).unwrap();
    assert_eq!(changed.id.name(), "Workers");
}

fn cluster_id_text(name: &str) -> String {
    crate::cluster_id(name).to_string()
}

#[test]
fn machine_sizes_are_shown_in_their_usual_spelling() {
    let mut body = node_pool_body();
    body["properties"]["platform"]["vmSize"] = json!("STANDARD_d8S_V3");
    body["properties"]["platform"]["subnetId"] = json!(network("virtualNetworks", "NET/subnets/pool"));
    let made = Version::V20261001
        .node_pool_put(body.to_string().as_bytes(), &node_pool_target("workers"), &cluster())
        .unwrap();
    assert_eq!(made.spec.platform.vm_size, "Standard_D8s_v3");
}

#[test]
fn served_versions_are_found_by_their_dates() {
    for version in Version::ALL {
        assert_eq!(Version::of(version.api_version()), Some(version));
    }
    assert!(Version::ALL.is_sorted_by_key(|version| version.api_version()));
    assert_eq!(Version::of(ApiVersion::preview(2026, 10, 1)), None);
}
