//! From what is asked for to what would be made: checks and defaults, without touching anything.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pilothouse_clusters_service_api::{
    Api, BASES, Cluster, ClusterId, ClusterState, ClusterStatus, DOMAIN_PREFIX, Dns, Enabled, Network,
    NewCluster, Reference, Version, properties,
};

use crate::catalogue::CHANNELS;
use crate::config::Config;
use crate::record::Origin;
use crate::refusal::Refusal;
use crate::{catalogue, prefix};

mod azure;
mod external_auth;
mod node_pool;
mod settings;
mod update;
mod upgrade;

pub(crate) use external_auth::{external_auth, external_auth_update};
pub(crate) use node_pool::{node_pool, node_pool_update};
pub(crate) use update::cluster_update;
pub(crate) use upgrade::{control_plane_upgrade, node_pool_upgrade};

/// How many minors the nodes may be behind their control plane; more than ARM allows is never asked for.
const LARGEST_SKEW: u32 = 2;

/// Checks a new cluster and fills in everything but what only the store can decide: its id and its prefix.
pub(crate) fn cluster(
    mut new: NewCluster,
    id: ClusterId,
    config: &Config,
    now: Timestamp,
) -> Result<Cluster, Refusal> {
    required("name", &new.name)?;
    required("azure.subscription_id", &new.azure.subscription_id)?;
    required("azure.resource_group_name", &new.azure.resource_group_name)?;
    required("azure.resource_name", &new.azure.resource_name)?;
    required("azure.managed_resource_group_name", &new.azure.managed_resource_group_name)?;
    azure::names(&new.azure)?;
    if let Some(region) = &new.region
        && region.id != config.region
    {
        let problem = format!("this service is that of region `{}`, not of `{}`", config.region, region.id);
        return Err(Refusal::field("region.id", problem));
    }
    match &new.domain_prefix {
        Some(prefix) if !prefix::is_valid(prefix) => {
            let problem = format!(
                "`{prefix}` must be at most {} lower-case letters, digits and hyphens, begin with a letter and not end \
                 with a hyphen",
                prefix::LONGEST
            );
            return Err(Refusal::field(DOMAIN_PREFIX, problem));
        }
        _ => {}
    }
    let azure = &mut new.azure;
    if azure.managed_resource_group_name.eq_ignore_ascii_case(&azure.resource_group_name) {
        let problem =
            "the managed resource group is deleted with the cluster; it must not be the cluster's own";
        return Err(Refusal::field("azure.managed_resource_group_name", problem));
    }
    for name in [
        &mut azure.subscription_id,
        &mut azure.resource_group_name,
        &mut azure.resource_name,
        &mut azure.managed_resource_group_name,
    ] {
        *name = name.to_lowercase();
    }
    for (field, name) in [
        ("azure.tenant_id", &azure.tenant_id),
        ("azure.subnet_resource_id", &azure.subnet_resource_id),
        ("azure.network_security_group_resource_id", &azure.network_security_group_resource_id),
        ("azure.vnet_integration_subnet_resource_id", &azure.vnet_integration_subnet_resource_id),
    ] {
        if name.as_deref() == Some("") {
            return Err(Refusal::field(field, "empty texts are not accepted; leave the field out"));
        }
    }
    // Read-only: there is no issuer to name yet.
    azure.oidc_issuer_url = None;
    settings::check(&new)?;
    let NewCluster { name, version, network, api, properties, azure, domain_prefix, .. } = new;
    let NewCluster {
        fips,
        ingresses,
        image_registry,
        registry_config,
        autoscaler,
        node_drain_grace_period,
        ..
    } = new;
    Ok(Cluster {
        kind: "Cluster".to_owned(),
        href: format!("{}/clusters/{id}", BASES[0]),
        id,
        name,
        creation_timestamp: now,
        region: Reference::new(&config.region),
        cloud_provider: Reference::new("azure"),
        product: Reference::new("aro"),
        hypershift: Enabled { enabled: true },
        // The empty one stands for "not decided yet"; it never reaches the store.
        domain_prefix: domain_prefix.unwrap_or_default(),
        dns: Dns { base_domain: config.base_domain.clone() },
        version: served(version, config)?,
        network: with_defaults(network),
        api: Api { url: None, ..api },
        ccs: Enabled { enabled: true },
        fips,
        ingresses,
        image_registry,
        registry_config,
        autoscaler,
        node_drain_grace_period,
        properties,
        azure,
        state: ClusterState::Validating,
        status: ClusterStatus {
            description: "accepted; its cloud resources are prepared next".to_owned(),
            ..ClusterStatus::default()
        },
    })
}

/// What asked for it: the properties say, and the request's headers where they do not.
pub(crate) fn origin(properties: &mut BTreeMap<String, String>, correlation_id: Option<&str>) -> Origin {
    if let Some(correlation_id) = correlation_id {
        properties.entry(properties::CORRELATION_ID.to_owned()).or_insert_with(|| correlation_id.to_owned());
    }
    Origin {
        operation_id: properties.get(properties::OPERATION_ID).cloned(),
        correlation_id: properties.get(properties::CORRELATION_ID).cloned(),
    }
}

fn required(field: &'static str, value: &str) -> Result<(), Refusal> {
    if value.is_empty() { Err(Refusal::field(field, "it is required")) } else { Ok(()) }
}

/// A version that can be served, down to its patch: a bare minor stands for its first one.
fn served(version: Version, config: &Config) -> Result<Version, Refusal> {
    let (oldest, newest) = config.minor_versions;
    let channel = version.channel_group.as_deref().unwrap_or(CHANNELS[0]);
    if !CHANNELS.contains(&channel) {
        let problem = format!("there is no channel `{channel}`; use one of {}", CHANNELS.join(", "));
        return Err(Refusal::field("version.channel_group", problem));
    }
    let number = version.number().unwrap_or_default();
    let exists =
        |minor: u32, patch: u32| catalogue::newest_patch(config, minor).is_some_and(|newest| patch <= newest);
    match numbers(&version).as_deref() {
        Some([4, minor, patch]) if exists(*minor, *patch) => Ok(version),
        Some([4, minor]) if exists(*minor, 0) => Ok(Version::of_channel(&format!("{number}.0"), channel)),
        _ => {
            let problem = format!(
                "`{}` cannot be served; versions are `openshift-v4.<minor>.<patch>` with minors {oldest} to {newest}, listed \
                 at `/versions`",
                version.id
            );
            Err(Refusal::field("version.id", problem))
        }
    }
}

/// The parts of a version's number; `None` if it has others than numbers.
fn numbers(version: &Version) -> Option<Vec<u32>> {
    version.number()?.split('.').map(|part| part.parse().ok()).collect()
}

fn with_defaults(network: Network) -> Network {
    let or = |given: Option<String>, default: &str| Some(given.unwrap_or_else(|| default.to_owned()));
    Network {
        network_type: or(network.network_type, "OVNKubernetes"),
        pod_cidr: or(network.pod_cidr, "10.132.0.0/14"),
        service_cidr: or(network.service_cidr, "172.31.0.0/16"),
        machine_cidr: network.machine_cidr,
        host_prefix: Some(network.host_prefix.unwrap_or(24)),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_clusters_service_api::{
        Autoscaler, Azure, CidrBlockAccess, GracePeriod, ImageDigestMirror, RegistryConfig,
    };

    use super::*;

    fn new() -> NewCluster {
        NewCluster {
            name: "first".into(),
            version: Version::of_number("4.20.3"),
            azure: Azure {
                subscription_id: "11111111-2222-3333-4444-555555555555".into(),
                resource_group_name: "Group".into(),
                resource_name: "First".into(),
                managed_resource_group_name: "Managed".into(),
                ..Azure::default()
            },
            ..NewCluster::default()
        }
    }

    pub(super) fn admitted(change: impl FnOnce(&mut NewCluster)) -> Result<Cluster, String> {
        let mut new = new();
        change(&mut new);
        let id = "0123456789abcdefghijklmnopqrstuv".parse().unwrap();
        cluster(new, id, &Config::default(), Timestamp::UNIX_EPOCH).map_err(|error| error.to_string())
    }

    #[test]
    fn what_was_left_out_is_filled_in_and_names_are_lower_case() {
        let cluster = admitted(|_| {}).unwrap();
        assert_eq!(cluster.azure.resource_group_name, "group");
        assert_eq!(cluster.network.pod_cidr.as_deref(), Some("10.132.0.0/14"));
        assert_eq!(cluster.href, "/api/clusters_mgmt/v1/clusters/0123456789abcdefghijklmnopqrstuv");
        let minor = admitted(|new| new.version = Version::of_number("4.20")).unwrap();
        assert_eq!(minor.version.number(), Some("4.20.0"));
        for channel in CHANNELS {
            let cluster = admitted(|new| new.version = Version::of_channel("4.20", channel)).unwrap();
            assert_eq!(cluster.version, Version::of_channel("4.20.0", channel));
        }
    }

    #[test]
    fn what_could_not_work_is_refused_with_its_field() {
        type Change = fn(&mut NewCluster);
        for (field, change) in [
            ("name", (|new| new.name = String::new()) as Change),
            ("azure.resource_name", |new| new.azure.resource_name = String::new()),
            ("azure.managed_resource_group_name", |new| {
                new.azure.managed_resource_group_name = "GROUP".into();
            }),
            ("domain_prefix", |new| new.domain_prefix = Some("Not-A-Label".into())),
            ("domain_prefix", |new| new.domain_prefix = Some(String::new())),
            ("region.id", |new| new.region = Some(Reference::new("elsewhere"))),
            ("version.id", |new| new.version = Version::of_number("4.16.9")),
            ("version.id", |new| new.version = Version::of_number("5.20.1")),
            ("version.id", |new| new.version = Version::of_number("4.20.99")),
            ("azure.subnet_resource_id", |new| new.azure.subnet_resource_id = Some(String::new())),
            ("fips", |new| new.fips = Some(true)),
            ("properties.hosted_cluster_single_replica", |new| {
                new.properties.insert(properties::SINGLE_REPLICA.into(), "maybe".into());
            }),
            ("node_drain_grace_period.unit", |new| {
                new.node_drain_grace_period = Some(GracePeriod { value: 1, unit: "hours".into() });
            }),
            ("api.cidr_block_access.allow.values", |new| {
                new.api.cidr_block_access = Some(CidrBlockAccess::only(vec!["not a range".into()]));
            }),
            ("autoscaler.max_node_provision_time", |new| {
                let max_node_provision_time = Some("soon".into());
                new.autoscaler = Some(Autoscaler { max_node_provision_time, ..Autoscaler::default() });
            }),
            ("registry_config.image_digest_mirrors", |new| {
                let image_digest_mirrors =
                    vec![ImageDigestMirror { source: "a.test".into(), mirrors: Vec::new() }];
                new.registry_config = Some(RegistryConfig { image_digest_mirrors });
            }),
            ("version.id", |new| new.version = Version::default()),
            ("version.channel_group", |new| new.version = Version::of_channel("4.20.3", "weekly")),
        ] {
            let refusal = admitted(change).unwrap_err();
            assert!(refusal.starts_with(&format!("field `{field}`")), "{field}: {refusal}");
        }
    }
}
