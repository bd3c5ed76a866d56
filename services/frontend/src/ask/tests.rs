use pilothouse_api::hub;
use pilothouse_arm::ResourceId;
use serde_json::json;
use uuid::Uuid;

use super::*;

fn work() -> Work<'static> {
    Work { operation: OperationId::new(Uuid::nil()), correlation_id: "c" }
}

fn id(name: &str) -> ResourceId {
    format!("/subscriptions/S/resourceGroups/Team/providers/P/types/{name}").parse().unwrap()
}

fn spec() -> hub::ClusterSpec {
    hub::ClusterSpec {
        version: hub::VersionProfile { id: Some("4.20".into()), channel_group: "stable".into() },
        base_domain_prefix: None,
        network: hub::Network::default(),
        api: hub::Api::default(),
        ingress: hub::Visibility::Public,
        platform: hub::Platform::default(),
        autoscaling: hub::Autoscaling::default(),
        node_drain_timeout_minutes: 0,
        etcd: hub::Etcd::default(),
        image_registry: hub::RegistryState::Enabled,
        image_digest_mirrors: Vec::new(),
        crypto_restrictions: hub::CryptoRestrictions::None,
    }
}

fn cluster(spec: hub::ClusterSpec) -> hub::Cluster {
    hub::Cluster {
        id: id("Name"),
        location: "here".into(),
        tags: BTreeMap::new(),
        system_data: pilothouse_arm::SystemData::default(),
        identity: None,
        spec,
        status: hub::ClusterStatus::default(),
    }
}

fn key(version: &str) -> hub::CustomerKey {
    hub::CustomerKey {
        encryption_type: hub::EncryptionType::Kms,
        vault_type: hub::KeyVaultType::ManagedHsm,
        vault_name: "vault".into(),
        visibility: hub::Visibility::Private,
        name: "key".into(),
        version: version.into(),
    }
}

#[test]
fn what_is_as_usual_is_left_out_of_a_new_cluster() {
    let within = Environment { tenant_id: None, identity_url: Some("https://identity.test") };
    let asked = serde_json::to_value(cluster_new(work(), within, &cluster(spec()))).unwrap();
    let members: Vec<_> = asked.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["api", "azure", "name", "network", "properties", "region", "version"]);
    assert_eq!(asked["azure"].get("operators_authentication"), None, "there is nobody to have a credential");
    assert_eq!((&asked["name"], &asked["azure"]["resource_group_name"]), (&json!("name"), &json!("team")));
}

#[test]
fn the_payload_that_a_tag_names_is_asked_for() {
    let within = Environment { tenant_id: None, identity_url: None };
    let mut tagged = cluster(spec());
    let asked =
        |cluster: &hub::Cluster| cluster_new(work(), within, cluster).properties.get("payload").cloned();
    assert_eq!(asked(&tagged), None);
    tagged.tags.insert("Pilothouse.Payload".into(), "upstream".into());
    assert_eq!(asked(&tagged).as_deref(), Some("upstream"));
}

#[test]
fn everything_that_a_cluster_can_be_is_passed_on() {
    let mut all = spec();
    all.version.channel_group = "fast".into();
    all.api =
        hub::Api { visibility: hub::Visibility::Private, authorized_cidrs: Some(vec!["10.0.0.1".into()]) };
    all.ingress = hub::Visibility::Private;
    all.autoscaling.max_nodes_total = 7;
    all.node_drain_timeout_minutes = 3;
    all.etcd.customer_key = Some(key("1"));
    all.image_registry = hub::RegistryState::Disabled;
    all.image_digest_mirrors = vec![hub::ImageDigestMirror { source: "a".into(), mirrors: vec!["b".into()] }];
    all.crypto_restrictions = hub::CryptoRestrictions::Fips;
    all.platform.container_registry_identity = Some(id("puller"));
    let within = Environment { tenant_id: Some("t"), identity_url: None };
    let asked = serde_json::to_value(cluster_new(work(), within, &cluster(all))).unwrap();
    for (pointer, expected) in [
        ("/version/id", json!("openshift-v4.20.8-fast")),
        ("/version/channel_group", json!("fast")),
        ("/api/listening", json!("internal")),
        ("/api/cidr_block_access/allow/mode", json!("allow_list")),
        ("/ingresses/items/0", json!({"default": true, "listening": "internal"})),
        ("/autoscaler/resource_limits/max_nodes_total", json!(7)),
        ("/autoscaler/max_node_provision_time", json!("15m")),
        ("/node_drain_grace_period", json!({"value": 3, "unit": "minutes"})),
        ("/azure/etcd_encryption/data_encryption/key_management_mode", json!("customer_managed")),
        (
            "/azure/etcd_encryption/data_encryption/customer_managed/kms",
            json!({"visibility": "private",
            "key_vault_type": "managed_hsm",
            "active_key": {"key_vault_name": "vault", "key_name": "key", "key_version": "1"}}),
        ),
        ("/image_registry/state", json!("disabled")),
        ("/registry_config/image_digest_mirrors/0/mirrors", json!(["b"])),
        ("/fips", json!(true)),
        ("/azure/tenant_id", json!("t")),
        ("/azure/container_registry/credentials/managed_identity/resource_id", json!(id("puller"))),
    ] {
        assert_eq!(asked.pointer(pointer), Some(&expected), "{pointer} of {asked}");
    }
}

#[test]
fn of_a_key_only_its_version_is_changed() {
    let mut stored = spec();
    stored.etcd.customer_key = Some(key("1"));
    let mut wanted = stored.clone();
    assert!(cluster_update(work(), Some(&stored), &wanted).is_empty());
    wanted.etcd.customer_key = Some(key("2"));
    let update = cluster_update(work(), Some(&stored), &wanted);
    assert_eq!(update.azure.as_ref().and_then(|azure| azure.key_version()), Some("2"));
    assert!(update.version.is_none() && update.autoscaler.is_none());
}

#[test]
fn a_version_is_the_newest_of_its_minor_or_the_very_one_that_is_named() {
    let of = |id: Option<&str>| {
        control_plane(&hub::VersionProfile { id: id.map(str::to_owned), channel_group: "stable".into() }).id
    };
    assert_eq!(of(Some("4.21")), "openshift-v4.21.2");
    assert_eq!(of(Some("4.21.0-rc.1")), "openshift-v4.21.0-rc.1");
    assert_eq!(of(None), "openshift-v4.20.8");
}

#[test]
fn a_pool_has_a_number_of_nodes_or_two_limits() {
    let mut wanted = hub::NodePoolSpec { replicas: 2, ..hub::NodePoolSpec::default() };
    let stored = wanted.clone();
    assert_eq!(node_pool_update(work(), None, &wanted).replicas, Some(2));
    assert_eq!(node_pool_update(work(), Some(&stored), &wanted).replicas, None);
    wanted.replicas = 0;
    wanted.auto_scaling = Some(hub::Scale { min: 1, max: 4 });
    let update = node_pool_update(work(), Some(&stored), &wanted);
    assert_eq!((update.replicas, update.autoscaling.map(|scale| scale.max_replica)), (None, Some(4)));
}
