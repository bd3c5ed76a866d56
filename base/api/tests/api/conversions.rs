use std::collections::BTreeMap;

use pilothouse_api::hub::{self, CustomerKey, Effect, Etcd, ImageDigestMirror, Scale, Taint, Visibility};
use pilothouse_api::{Target, Version};
use pilothouse_arm::ApiVersion;
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

use crate::{cluster, cluster_body, node_pool, target};

fn visibility() -> impl Strategy<Value = Visibility> {
    prop_oneof![Just(Visibility::Public), Just(Visibility::Private)]
}

prop_compose! {
    fn customer_key()(vault_name in "[a-z]{1,9}", name in "[a-z]{1,9}", version in "[0-9]{1,4}",
                      visibility in visibility(), hsm in any::<bool>()) -> CustomerKey {
        let vault_type = if hsm { hub::KeyVaultType::ManagedHsm } else { hub::KeyVaultType::KeyVault };
        CustomerKey {
            encryption_type: hub::EncryptionType::Kms, vault_type, vault_name, visibility, name, version,
        }
    }
}

prop_compose! {
    /// Valid clusters, with what may be chosen freely chosen freely.
    fn clusters()(
        minor in 20_u32..23, group in prop_oneof!["stable", "fast"], prefix in option::of("[a-z]{1,15}"),
        octet in 64_u8..128, host_prefix in 23..27, visibility in visibility(), ingress in visibility(),
        cidrs in option::of(proptest::collection::vec(Just("10.1.0.0/16".to_owned()), 1..4)),
        managed in option::of("[a-z]{1,20}-managed"), nodes in 0..501, threshold in any::<i32>(), drain in 0..10081,
        customer_key in option::of(customer_key()), disabled in any::<bool>(), fips in any::<bool>(),
        mirrors in proptest::collection::vec("[a-z]{1,5}\\.test", 0..3),
        tags in proptest::collection::btree_map("[a-z]{1,5}", "[ -~]{0,9}", 0..3),
    ) -> hub::Cluster {
        let mut cluster = cluster();
        cluster.tags = tags;
        let spec = &mut cluster.spec;
        spec.version = hub::VersionProfile { id: Some(format!("4.{minor}")), channel_group: group };
        spec.base_domain_prefix = prefix;
        spec.network.pod_cidr = format!("{octet}.0.0.0/8");
        spec.network.host_prefix = host_prefix;
        spec.api = hub::Api { visibility, authorized_cidrs: cidrs };
        spec.ingress = ingress;
        spec.platform.managed_resource_group = managed;
        spec.autoscaling.max_nodes_total = nodes;
        spec.autoscaling.pod_priority_threshold = threshold;
        spec.node_drain_timeout_minutes = drain;
        spec.etcd = Etcd { customer_key };
        if disabled {
            spec.image_registry = hub::RegistryState::Disabled;
        }
        if fips {
            spec.crypto_restrictions = hub::CryptoRestrictions::Fips;
        }
        spec.image_digest_mirrors = mirrors
            .into_iter()
            .map(|source| ImageDigestMirror { mirrors: vec![format!("mirror.{source}")], source })
            .collect();
        cluster
    }
}

prop_compose! {
    fn node_pools()(
        patch in 8_u32..20, replicas in 0..201, scale in option::of((0..100, 100..200)), repair in any::<bool>(),
        labels in proptest::collection::btree_map("[a-z]{1,5}", "[a-z]{0,5}", 0..3), zone in option::of("[1-3]"),
        taint in option::of(("[a-z]{1,9}", option::of("[a-z]{1,9}"))), drain in option::of(0..10081), size in 64..4096,
    ) -> hub::NodePool {
        let mut pool = node_pool();
        let spec = &mut pool.spec;
        spec.version.id = Some(format!("4.20.{patch}"));
        spec.auto_scaling = scale.map(|(min, max)| Scale { min, max });
        spec.replicas = if scale.is_some() { 0 } else { replicas };
        spec.auto_repair = repair;
        spec.labels = labels;
        spec.taints =
            taint.into_iter().map(|(key, value)| Taint { key, value, effect: Effect::NoExecute }).collect();
        spec.node_drain_timeout_minutes = drain;
        spec.platform.availability_zone = zone;
        spec.platform.os_disk.size_gib = size;
        pool
    }
}

proptest! {
    #[test]
    fn the_newest_version_shows_everything_that_a_cluster_is(cluster in clusters()) {
        let body = Version::V20261001.cluster_write(&cluster).to_string();
        let target = target("First");
        let again = Version::V20261001.cluster_put(body.as_bytes(), &target).unwrap();
        prop_assert_eq!(again, cluster);
    }

    #[test]
    fn writing_back_what_was_read_changes_nothing_in_any_version(cluster in clusters()) {
        for version in Version::ALL {
            let body = version.cluster_write(&cluster).to_string();
            let target = Target { existing: Some(&cluster), ..target("FIRST") };
            prop_assert_eq!(&version.cluster_put(body.as_bytes(), &target).unwrap(), &cluster);
            prop_assert_eq!(&version.cluster_patch(b"{}", &cluster).unwrap(), &cluster);
        }
    }

    #[test]
    fn node_pools_survive_every_version_too(pool in node_pools()) {
        for version in Version::ALL {
            let body = version.node_pool_write(&pool).to_string();
            let target = Target { id: pool.id.clone(), location: "here".to_owned(), existing: Some(&pool) };
            prop_assert_eq!(&version.node_pool_put(body.as_bytes(), &target, &cluster()).unwrap(), &pool);
            let target = Target { existing: None, ..target };
            prop_assert_eq!(&version.node_pool_put(body.as_bytes(), &target, &cluster()).unwrap(), &pool);
        }
    }

    #[test]
    fn what_is_stored_is_read_again(cluster in clusters(), pool in node_pools()) {
        let text = serde_json::to_string(&(&cluster, &pool)).unwrap();
        prop_assert_eq!(serde_json::from_str::<(hub::Cluster, hub::NodePool)>(&text).unwrap(), (cluster, pool));
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
}

#[test]
fn served_versions_are_found_by_their_dates() {
    for version in Version::ALL {
        assert_eq!(Version::of(version.api_version()), Some(version));
    }
    assert_eq!(Version::of(ApiVersion::preview(2026, 10, 1)), None);
}
