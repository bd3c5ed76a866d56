use std::collections::BTreeMap;

use pilothouse_api::hub;
use pilothouse_arm::ResourceId;
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{ClusterUpdate, NewCluster};

use super::{Work, control_plane, minutes};

/// What a cluster is made in, beside what its owner says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Environment<'a> {
    pub(crate) tenant_id: Option<&'a str>,
    pub(crate) identity_url: Option<&'a str>,
}

/// A cluster as it is asked for, under the operation that asks.
pub(crate) fn cluster_new(work: Work<'_>, within: Environment<'_>, cluster: &hub::Cluster) -> NewCluster {
    let hub::ClusterSpec {
        version,
        base_domain_prefix,
        network,
        api,
        ingress,
        platform,
        autoscaling,
        node_drain_timeout_minutes,
        etcd,
        image_registry,
        image_digest_mirrors,
        crypto_restrictions,
    } = &cluster.spec;
    let hub::Network { network_type, pod_cidr, service_cidr, machine_cidr, host_prefix } = network;
    let hub::Api { visibility, authorized_cidrs } = api;
    NewCluster {
        name: cluster.id.name().to_ascii_lowercase(),
        region: Some(clusters_service::Reference::new(&cluster.location)),
        domain_prefix: base_domain_prefix.clone(),
        version: control_plane(version),
        network: clusters_service::Network {
            network_type: Some(network_type.as_str().to_owned()),
            pod_cidr: Some(pod_cidr.clone()),
            service_cidr: Some(service_cidr.clone()),
            machine_cidr: Some(machine_cidr.clone()),
            host_prefix: u8::try_from(*host_prefix).ok(),
        },
        api: clusters_service::Api {
            url: None,
            listening: listening(*visibility),
            cidr_block_access: authorized_cidrs.as_ref().map(|_| access(authorized_cidrs.as_deref())),
        },
        ingresses: (*ingress != hub::Visibility::default()).then(|| clusters_service::Ingresses {
            items: vec![clusters_service::Ingress { default: true, listening: listening(*ingress) }],
        }),
        image_registry: (*image_registry == hub::RegistryState::Disabled)
            .then_some(clusters_service::ImageRegistry { state: clusters_service::Switch::Disabled }),
        registry_config: (!image_digest_mirrors.is_empty()).then(|| mirrors(image_digest_mirrors)),
        autoscaler: (*autoscaling != hub::Autoscaling::default()).then(|| autoscaler(autoscaling)),
        node_drain_grace_period: (*node_drain_timeout_minutes != 0)
            .then(|| minutes(*node_drain_timeout_minutes)),
        fips: (*crypto_restrictions == hub::CryptoRestrictions::Fips).then_some(true),
        properties: properties(work, cluster),
        azure: azure(within, cluster, platform, etcd),
        ..NewCluster::default()
    }
}

/// Who asks, for which programs, and how often each of them.
fn properties(work: Work<'_>, cluster: &hub::Cluster) -> BTreeMap<String, String> {
    let payload = pilothouse_api::payload(&cluster.tags);
    let payload = payload.map(|payload| (clusters_service::properties::PAYLOAD, payload.to_owned()));
    let availability = pilothouse_api::availability(&cluster.tags);
    let availability = availability.map(|availability| {
        let single = availability == pilothouse_api::SINGLE_REPLICA;
        (clusters_service::properties::SINGLE_REPLICA, single.to_string())
    });
    let chosen = payload.into_iter().chain(availability).map(|(name, value)| (name.to_owned(), value));
    work.properties().into_iter().chain(chosen).collect()
}

/// What of a cluster is to be another. Compared with nothing, everything that can be is said.
pub(crate) fn cluster_update(
    work: Work<'_>,
    stored: Option<&hub::ClusterSpec>,
    wanted: &hub::ClusterSpec,
) -> ClusterUpdate {
    fn differs<T: PartialEq>(
        stored: Option<&hub::ClusterSpec>,
        wanted: &hub::ClusterSpec,
        of: fn(&hub::ClusterSpec) -> &T,
    ) -> bool {
        stored.is_none_or(|stored| of(stored) != of(wanted))
    }
    let key = wanted.etcd.customer_key.as_ref().filter(|_| differs(stored, wanted, |spec| &spec.etcd));
    ClusterUpdate {
        node_drain_grace_period: differs(stored, wanted, |spec| &spec.node_drain_timeout_minutes)
            .then(|| minutes(wanted.node_drain_timeout_minutes)),
        api: differs(stored, wanted, |spec| &spec.api.authorized_cidrs).then(|| {
            clusters_service::ApiUpdate {
                cidr_block_access: Some(access(wanted.api.authorized_cidrs.as_deref())),
            }
        }),
        registry_config: differs(stored, wanted, |spec| &spec.image_digest_mirrors)
            .then(|| mirrors(&wanted.image_digest_mirrors)),
        autoscaler: differs(stored, wanted, |spec| &spec.autoscaling)
            .then(|| autoscaler(&wanted.autoscaling)),
        azure: key.map(|key| clusters_service::AzureUpdate::of_key_version(&key.version)),
        version: differs(stored, wanted, |spec| &spec.version).then(|| control_plane(&wanted.version)),
        properties: work.properties(),
    }
}

fn azure(
    within: Environment<'_>,
    cluster: &hub::Cluster,
    platform: &hub::Platform,
    etcd: &hub::Etcd,
) -> clusters_service::Azure {
    let hub::Platform {
        managed_resource_group,
        subnet_id,
        vnet_integration_subnet_id,
        // There is one way out, and it need not be named.
        outbound_type: _,
        network_security_group_id,
        operators,
        container_registry_identity,
    } = platform;
    let text = |id: &Option<ResourceId>| id.as_ref().map(ToString::to_string);
    clusters_service::Azure {
        subscription_id: cluster.id.subscription_name().to_lowercase(),
        resource_group_name: cluster.id.resource_group_name().unwrap_or_default().to_lowercase(),
        resource_name: cluster.id.name().to_lowercase(),
        tenant_id: within.tenant_id.map(str::to_owned),
        managed_resource_group_name: managed_resource_group.clone().unwrap_or_default(),
        subnet_resource_id: text(subnet_id),
        network_security_group_resource_id: text(network_security_group_id),
        vnet_integration_subnet_resource_id: text(vnet_integration_subnet_id),
        oidc_issuer_url: None,
        container_registry: container_registry_identity.as_ref().map(|id| {
            let credentials = clusters_service::ContainerRegistryCredentials {
                credentials_type: "ManagedIdentity".to_owned(),
                managed_identity: identity(id),
            };
            clusters_service::ContainerRegistry { credentials }
        }),
        nodes_outbound_connectivity: None,
        etcd_encryption: etcd.customer_key.as_ref().map(encryption),
        operators_authentication: authentication(within, operators),
    }
}

fn authentication(
    within: Environment<'_>,
    operators: &hub::OperatorIdentities,
) -> Option<clusters_service::OperatorsAuthentication> {
    let hub::OperatorIdentities { control_plane, data_plane, service } = operators;
    let by_operator = |operators: &BTreeMap<String, ResourceId>| {
        operators.iter().map(|(operator, id)| (operator.clone(), identity(id))).collect()
    };
    let said = !control_plane.is_empty() || !data_plane.is_empty() || service.is_some();
    said.then(|| clusters_service::OperatorsAuthentication {
        managed_identities: clusters_service::ManagedIdentities {
            managed_identities_data_plane_identity_url: within.identity_url.map(str::to_owned),
            control_plane_operators_managed_identities: by_operator(control_plane),
            data_plane_operators_managed_identities: by_operator(data_plane),
            service_managed_identity: service.as_ref().map(identity),
        },
    })
}

fn identity(id: &ResourceId) -> clusters_service::ManagedIdentity {
    clusters_service::ManagedIdentity {
        resource_id: id.to_string(),
        ..clusters_service::ManagedIdentity::default()
    }
}

fn encryption(key: &hub::CustomerKey) -> clusters_service::EtcdEncryption {
    let hub::CustomerKey { encryption_type: _, vault_type, vault_name, visibility, name, version } = key;
    let kms = clusters_service::Kms {
        visibility: Some(match visibility {
            hub::Visibility::Public => "public".to_owned(),
            hub::Visibility::Private => "private".to_owned(),
        }),
        key_vault_type: (*vault_type == hub::KeyVaultType::ManagedHsm).then(|| "managed_hsm".to_owned()),
        active_key: clusters_service::ActiveKey {
            key_vault_name: vault_name.clone(),
            key_name: name.clone(),
            key_version: version.clone(),
        },
    };
    clusters_service::EtcdEncryption {
        data_encryption: clusters_service::DataEncryption {
            key_management_mode: "customer_managed".to_owned(),
            customer_managed: Some(clusters_service::CustomerManaged {
                encryption_type: "kms".to_owned(),
                kms: Some(kms),
            }),
        },
    }
}

fn listening(visibility: hub::Visibility) -> clusters_service::Listening {
    match visibility {
        hub::Visibility::Public => clusters_service::Listening::External,
        hub::Visibility::Private => clusters_service::Listening::Internal,
    }
}

fn access(cidrs: Option<&[String]>) -> clusters_service::CidrBlockAccess {
    match cidrs {
        Some(cidrs) => clusters_service::CidrBlockAccess::only(cidrs.to_vec()),
        None => clusters_service::CidrBlockAccess::all(),
    }
}

fn mirrors(mirrors: &[hub::ImageDigestMirror]) -> clusters_service::RegistryConfig {
    let mirror = |hub::ImageDigestMirror { source, mirrors }: &hub::ImageDigestMirror| {
        clusters_service::ImageDigestMirror { source: source.clone(), mirrors: mirrors.clone() }
    };
    clusters_service::RegistryConfig { image_digest_mirrors: mirrors.iter().map(mirror).collect() }
}

fn autoscaler(scaling: &hub::Autoscaling) -> clusters_service::Autoscaler {
    let hub::Autoscaling {
        max_nodes_total,
        max_pod_grace_period_seconds,
        max_node_provision_time_seconds,
        pod_priority_threshold,
    } = scaling;
    clusters_service::Autoscaler {
        max_node_provision_time: Some(time(*max_node_provision_time_seconds)),
        max_pod_grace_period: Some(*max_pod_grace_period_seconds),
        pod_priority_threshold: Some(*pod_priority_threshold),
        resource_limits: Some(clusters_service::ResourceLimits {
            max_nodes_total: u32::try_from(*max_nodes_total).ok(),
        }),
    }
}

/// Whole minutes as such, as the service writes its own usual time.
fn time(seconds: i32) -> String {
    if seconds % 60 == 0 { format!("{}m", seconds / 60) } else { format!("{seconds}s") }
}
