//! Resources of the hub, with what may be chosen freely chosen freely.

use std::collections::BTreeMap;

use pilothouse_api::hub::{self, CustomerKey, Effect, Etcd, ImageDigestMirror, Scale, Taint, Visibility};
use pilothouse_arm::ProvisioningState;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use crate::{cluster, external_auth, identity, network, node_pool};

fn visibility() -> impl Strategy<Value = Visibility> {
    prop_oneof![Just(Visibility::Public), Just(Visibility::Private)]
}

fn state() -> impl Strategy<Value = ProvisioningState> {
    prop_oneof![
        Just(ProvisioningState::Accepted),
        Just(ProvisioningState::Succeeded),
        Just(ProvisioningState::Failed)
    ]
}

prop_compose! {
    fn conditions()(kinds in vec("[A-Z][a-z]{1,8}", 0..3), holds in any::<bool>()) -> Vec<hub::Condition> {
        let status = if holds { hub::ConditionStatus::True } else { hub::ConditionStatus::Unknown };
        kinds.into_iter().map(|kind| hub::Condition {
            kind, status, last_transition_time: "2026-11-15T00:00:00Z".to_owned(),
            reason: "Seen".to_owned(), message: "it was looked at".to_owned(),
        }).collect()
    }
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
    fn identities()(
        control_plane in vec(prop_oneof!["ingress", "kms", "control-plane", "disk-csi-driver"], 0..3),
        data_plane in vec(prop_oneof!["disk-csi-driver", "file-csi-driver", "image-registry"], 0..3),
    ) -> hub::OperatorIdentities {
        let ids = |plane: &str, names: Vec<String>| -> BTreeMap<_, _> {
            names.into_iter().map(|name| {
                let id = identity(&format!("{plane}-{name}")).parse().unwrap();
                (name, id)
            }).collect()
        };
        hub::OperatorIdentities {
            control_plane: ids("cp", control_plane),
            data_plane: ids("dp", data_plane),
            service: Some(identity("service").parse().unwrap()),
        }
    }
}

prop_compose! {
    /// What the first version shows too, in every version.
    fn base_clusters()(
        minor in 20_u32..23, group in prop_oneof!["stable", "fast"], prefix in option::of("[a-z]{1,15}"),
        octet in 64_u8..128, host_prefix in 23..27, visibility in visibility(),
        cidrs in option::of(vec(Just("10.1.0.0/16".to_owned()), 1..4)),
        managed in option::of("[a-z]{1,20}-managed"), nodes in 0..501, grace in 1..9000, provision in 1..9000,
        threshold in prop_oneof![Just(0), any::<i32>()], drain in prop_oneof![Just(0), 0..10081], disabled in any::<bool>(),
        tags in btree_map("[a-z]{1,5}", "[ -~]{0,9}", 0..3), operators in identities(),
        (state, url) in (state(), option::of("https://[a-z]{1,9}\\.test")),
    ) -> hub::Cluster {
        let mut cluster = cluster();
        cluster.tags = tags;
        cluster.identity = Some(hub::Identity {
            kind: hub::IdentityKind::UserAssigned,
            user_assigned: operators.control_plane.values().chain(&operators.service)
                .map(|id| (id.clone(), hub::AssignedIdentity::default())).collect(),
        });
        let spec = &mut cluster.spec;
        spec.version = hub::VersionProfile { id: Some(format!("4.{minor}")), channel_group: group };
        spec.base_domain_prefix = prefix;
        spec.network.pod_cidr = format!("{octet}.0.0.0/8");
        spec.network.host_prefix = host_prefix;
        spec.api = hub::Api { visibility, authorized_cidrs: cidrs };
        spec.platform.managed_resource_group = managed;
        spec.platform.operators = operators;
        spec.autoscaling = hub::Autoscaling {
            max_nodes_total: nodes, max_pod_grace_period_seconds: grace,
            max_node_provision_time_seconds: provision, pod_priority_threshold: threshold,
        };
        spec.node_drain_timeout_minutes = drain;
        if disabled {
            spec.image_registry = hub::RegistryState::Disabled;
        }
        cluster.status.provisioning_state = state;
        cluster.status.api_url = url;
        cluster
    }
}

prop_compose! {
    /// Valid clusters.
    pub(crate) fn clusters()(
        mut cluster in base_clusters(), ingress in visibility(), customer_key in option::of(customer_key()),
        fips in any::<bool>(), mirrors in vec("[a-z]{1,5}\\.test", 0..3), registry in any::<bool>(),
        conditions in conditions(), active in vec(Just("4.20".to_owned()), 0..2),
    ) -> hub::Cluster {
        let spec = &mut cluster.spec;
        spec.ingress = ingress;
        spec.etcd = Etcd { customer_key };
        if fips {
            spec.crypto_restrictions = hub::CryptoRestrictions::Fips;
        }
        spec.image_digest_mirrors = mirrors
            .into_iter()
            .map(|source| ImageDigestMirror { mirrors: vec![format!("mirror.{source}")], source })
            .collect();
        spec.platform.container_registry_identity = registry.then(|| identity("puller").parse().unwrap());
        cluster.status.conditions = conditions;
        cluster.status.active_versions = active;
        cluster
    }
}

prop_compose! {
    /// Valid node pools of [`cluster`].
    pub(crate) fn node_pools()(
        patch in 8_u32..20, replicas in 0..201, scale in option::of((0..100, 100..200)), repair in any::<bool>(),
        labels in btree_map("[a-z]{1,5}", "[a-z]{0,5}", 0..3), zone in option::of("[1-3]"),
        taint in option::of(("[a-z]{1,9}", option::of("[a-z]{1,9}"))), drain in option::of(0..10081), size in 64_i32..4096,
        encrypted in any::<bool>(), subnet in any::<bool>(), ephemeral in any::<bool>(), conditions in conditions(),
    ) -> hub::NodePool {
        let mut pool = node_pool();
        let spec = &mut pool.spec;
        spec.version.id = Some(format!("4.20.{patch}"));
        spec.auto_scaling = scale.map(|(min, max)| Scale { min, max });
        spec.replicas = if scale.is_some() { 0 } else { replicas };
        spec.auto_repair = repair || ephemeral;
        spec.labels = labels;
        spec.taints =
            taint.into_iter().map(|(key, value)| Taint { key, value, effect: Effect::NoExecute }).collect();
        spec.node_drain_timeout_minutes = drain;
        let platform = &mut spec.platform;
        platform.availability_zone = zone;
        platform.encryption_at_host = encrypted;
        platform.subnet_id = subnet.then(|| network("virtualNetworks", "net/subnets/pool").parse().unwrap());
        platform.os_disk.size_gib = if ephemeral { size.min(2040) } else { size };
        if ephemeral {
            platform.os_disk.disk_type = hub::DiskType::Ephemeral;
        }
        pool.status.conditions = conditions;
        pool
    }
}

prop_compose! {
    /// Valid external authentications.
    pub(crate) fn external_auths()(
        url in "https://[a-z]{1,9}\\.test", audiences in vec("[a-z]{1,9}", 1..10), groups in option::of("[a-z]{1,9}"),
        prefix in option::of("[a-z]{1,9}"), rules in vec(("[a-z]{1,9}", "[a-z]{1,9}"), 0..3),
        clients in btree_map("[a-z]{1,9}", vec("[a-z]{1,9}", 0..2), 0..5), conditions in conditions(),
    ) -> hub::ExternalAuth {
        let mut auth = external_auth();
        auth.spec.clients = clients.into_iter().map(|(component_name, extra_scopes)| hub::TokenClient {
            component_name, component_namespace: "tools".to_owned(), client_id: audiences[0].clone(), extra_scopes,
            client_type: hub::ClientType::Public,
        }).collect();
        auth.spec.issuer = hub::TokenIssuer { url, audiences, ca: None };
        auth.spec.claims = hub::Claims {
            username: hub::UsernameClaim {
                claim: "email".to_owned(),
                prefix_policy: if prefix.is_some() { hub::PrefixPolicy::Prefix } else { hub::PrefixPolicy::NoPrefix },
                prefix,
            },
            groups: groups.map(|claim| hub::GroupsClaim { claim, prefix: None }),
            validation_rules: rules
                .into_iter()
                .map(|(claim, required_value)| hub::RequiredClaim { claim, required_value })
                .collect(),
        };
        auth.status.conditions = conditions;
        auth
    }
}
