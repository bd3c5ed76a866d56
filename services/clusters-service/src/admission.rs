//! From what is asked for to what would be made: checks and defaults, without touching anything.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pilothouse_clusters_service_api::{
    BASES, Cluster, ClusterId, ClusterState, ClusterStatus, DOMAIN_PREFIX, Dns, Enabled, Network, NewCluster,
    NewNodePool, NodePool, NodePoolState, NodePoolStateValue, NodePoolStatus, NodePoolUpdate, Reference,
    Taint, Version, properties,
};

use crate::config::Config;
use crate::prefix;
use crate::record::Origin;
use crate::refusal::Refusal;

/// More machines than one pool may have; as in ARM's own limit.
const MOST_REPLICAS: u32 = 500;

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
    for name in
        [&mut azure.tenant_id, &mut azure.subnet_resource_id, &mut azure.network_security_group_resource_id]
    {
        if name.as_deref() == Some("") {
            return Err(Refusal::field("azure", "empty texts are not accepted; leave the field out"));
        }
    }
    let NewCluster { name, version, network, api, properties, azure, domain_prefix, .. } = new;
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
        version: served(version, config, "version.id")?,
        network: with_defaults(network),
        api: pilothouse_clusters_service_api::Api { url: None, ..api },
        properties,
        azure,
        state: ClusterState::Validating,
        status: ClusterStatus {
            description: "accepted; its cloud resources are prepared next".to_owned(),
            ..ClusterStatus::default()
        },
    })
}

/// Checks a new node pool of a cluster and fills in what was left out.
pub(crate) fn node_pool(
    new: NewNodePool,
    cluster: &Cluster,
    config: &Config,
    now: Timestamp,
) -> Result<NodePool, Refusal> {
    possible(new.replicas)?;
    known_effects(&new.taints)?;
    let NewNodePool { id, replicas, auto_repair, version, labels, taints, properties, azure_node_pool } = new;
    let version = served(version.unwrap_or_else(|| cluster.version.clone()), config, "version.id")?;
    if numbers(&version) > numbers(&cluster.version) {
        let problem = format!("`{}` is newer than its cluster's `{}`", version.id, cluster.version.id);
        return Err(Refusal::field("version.id", problem));
    }
    Ok(NodePool {
        kind: "NodePool".to_owned(),
        href: format!("{}/node_pools/{id}", cluster.href),
        id,
        cluster_id: cluster.id.clone(),
        creation_timestamp: now,
        replicas,
        auto_repair,
        version,
        labels,
        taints,
        properties,
        azure_node_pool,
        status: NodePoolStatus {
            state: NodePoolState { value: NodePoolStateValue::Validating, last_updated_timestamp: now },
            current_replicas: 0,
            message: "accepted".to_owned(),
        },
    })
}

/// Checks a change of a node pool.
pub(crate) fn node_pool_update(update: &NodePoolUpdate) -> Result<(), Refusal> {
    possible(update.replicas.unwrap_or_default())?;
    known_effects(update.taints.as_deref().unwrap_or_default())
}

fn possible(replicas: u32) -> Result<(), Refusal> {
    if replicas > MOST_REPLICAS {
        return Err(Refusal::field("replicas", format!("at most {MOST_REPLICAS} nodes are possible")));
    }
    Ok(())
}

fn known_effects(taints: &[Taint]) -> Result<(), Refusal> {
    let known =
        |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "PreferNoSchedule" | "NoExecute");
    match taints.iter().find(|taint| !known(taint)) {
        None => Ok(()),
        Some(taint) => {
            let problem = format!("`{}` is not one of NoSchedule, PreferNoSchedule, NoExecute", taint.effect);
            Err(Refusal::field("taints.effect", problem))
        }
    }
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
fn served(version: Version, config: &Config, field: &'static str) -> Result<Version, Refusal> {
    let (oldest, newest) = config.minor_versions;
    let number = version.number().unwrap_or_default();
    match numbers(&version).as_deref() {
        Some([4, minor, _]) if (oldest..=newest).contains(minor) => Ok(version),
        Some([4, minor]) if (oldest..=newest).contains(minor) => Ok(Version {
            channel_group: version.channel_group.clone(),
            ..Version::of_number(&format!("{number}.0"))
        }),
        _ => {
            let problem = format!(
                "`{}` cannot be served; versions are `openshift-v4.<minor>.<patch>` with minors {oldest} to {newest}",
                version.id
            );
            Err(Refusal::field(field, problem))
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
    use pilothouse_clusters_service_api::Azure;

    use super::*;

    fn new() -> NewCluster {
        NewCluster {
            name: "first".into(),
            version: Version::of_number("4.20.3"),
            azure: Azure {
                subscription_id: "S".into(),
                resource_group_name: "Group".into(),
                resource_name: "First".into(),
                managed_resource_group_name: "Managed".into(),
                ..Azure::default()
            },
            ..NewCluster::default()
        }
    }

    fn admitted(change: impl FnOnce(&mut NewCluster)) -> Result<Cluster, String> {
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
    }

    #[test]
    fn node_pools_have_their_clusters_version_or_an_older_one() {
        let cluster = admitted(|_| {}).unwrap();
        let pool = |version: Option<&str>| {
            let new = NewNodePool {
                id: "workers".parse().unwrap(),
                replicas: 1,
                auto_repair: false,
                version: version.map(Version::of_number),
                labels: BTreeMap::new(),
                taints: Vec::new(),
                properties: BTreeMap::new(),
                azure_node_pool: pilothouse_clusters_service_api::AzureNodePool::default(),
            };
            node_pool(new, &cluster, &Config::default(), Timestamp::UNIX_EPOCH)
        };
        assert_eq!(pool(None).unwrap().version.number(), Some("4.20.3"));
        assert_eq!(pool(Some("4.20.1")).unwrap().version.number(), Some("4.20.1"));
        assert!(pool(Some("4.20.10")).unwrap_err().to_string().contains("is newer than its cluster's"));
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
            ("version.id", |new| new.version = Version::default()),
        ] {
            let refusal = admitted(change).unwrap_err();
            assert!(refusal.starts_with(&format!("field `{field}`")), "{field}: {refusal}");
        }
    }
}
