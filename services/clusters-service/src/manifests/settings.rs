//! Settings of a `HostedCluster` and a `NodePool` that are written down only where they were asked for, so that what was made
//! before there were any reads as it did.

use std::collections::BTreeMap;

use pilothouse_clusters_service_api::{
    AllowMode, AzureNodePool, Cluster, GracePeriod, Listening, NodePool, Persistence, Switch,
};
use serde_json::{Map, Value, json};

use super::Names;
use crate::record::ClusterRecord;

/// Members of a `HostedCluster`'s `spec`.
pub(super) fn of_cluster(record: &ClusterRecord, names: &Names) -> BTreeMap<String, Value> {
    let cluster = &record.cluster;
    let mut members = BTreeMap::new();
    if let Some(autoscaler) = &cluster.autoscaler {
        let limits = autoscaler.resource_limits.unwrap_or_default();
        // Nought is the default, which is not to say.
        let most = limits.max_nodes_total.filter(|most| *most > 0);
        let autoscaling = object([
            ("maxNodesTotal", most.map(|most| json!(most))),
            ("maxPodGracePeriod", autoscaler.max_pod_grace_period.map(|seconds| json!(seconds))),
            ("maxNodeProvisionTime", autoscaler.max_node_provision_time.as_ref().map(|time| json!(time))),
            ("podPriorityThreshold", autoscaler.pod_priority_threshold.map(|threshold| json!(threshold))),
        ]);
        members.insert("autoscaling".to_owned(), autoscaling);
    }
    let mirrors = cluster.registry_config.iter().flat_map(|config| &config.image_digest_mirrors);
    let mirrors: Vec<_> =
        mirrors.map(|mirror| json!({"source": mirror.source, "mirrors": mirror.mirrors})).collect();
    if !mirrors.is_empty() {
        members.insert("imageContentSources".to_owned(), json!(mirrors));
    }
    if cluster.image_registry.is_some_and(|registry| registry.state == Switch::Disabled) {
        members.insert("capabilities".to_owned(), json!({"disabled": ["ImageRegistry"]}));
    }
    let own = || {
        let key = json!({"activeKey": {"name": names.secret_encryption()}});
        record.encryption_key().map(|_| json!({"type": "aescbc", "aescbc": key}))
    };
    if let Some(encryption) = encryption(cluster).or_else(own) {
        members.insert("secretEncryption".to_owned(), encryption);
    }
    members
}

/// The key of the customer that what the cluster stores is to be encrypted with.
fn encryption(cluster: &Cluster) -> Option<Value> {
    let encryption = &cluster.azure.etcd_encryption.as_ref()?.data_encryption;
    let key = &encryption.customer_managed.as_ref()?.kms.as_ref()?.active_key;
    let key =
        json!({"keyVaultName": key.key_vault_name, "keyName": key.key_name, "keyVersion": key.key_version});
    Some(json!({"type": "kms", "kms": {"provider": "Azure", "azure": {"activeKey": key}}}))
}

/// Members of `networking.apiServer` of a `HostedCluster`.
pub(super) fn of_api_server(cluster: &Cluster) -> BTreeMap<String, Value> {
    let allow = cluster.api.cidr_block_access.as_ref().map(|access| &access.allow);
    match allow.filter(|allow| allow.mode == AllowMode::AllowList) {
        Some(allow) => BTreeMap::from([("allowedCIDRBlocks".to_owned(), json!(allow.values))]),
        None => BTreeMap::new(),
    }
}

/// `platform.azure.topology` of a `HostedCluster`, if its API server is not for everybody.
pub(super) fn topology(cluster: &Cluster) -> Option<&'static str> {
    match cluster.api.listening {
        Listening::External => None,
        Listening::Internal => Some("Private"),
    }
}

/// Members of a `NodePool`'s `spec`.
pub(super) fn of_node_pool(node_pool: &NodePool, cluster: &Cluster) -> BTreeMap<String, Value> {
    let period = node_pool.node_drain_grace_period.as_ref().or(cluster.node_drain_grace_period.as_ref());
    // Nought is no limit, which is not to say.
    let limit = period.map(|GracePeriod { value, .. }| *value).filter(|minutes| *minutes > 0);
    limit.map(|minutes| ("nodeDrainTimeout".to_owned(), json!(format!("{minutes}m0s")))).into_iter().collect()
}

/// `platform.azure` of a `NodePool`.
pub(super) fn of_machines(node_pool: &NodePool) -> Value {
    let AzureNodePool { vm_size, encryption_at_host, os_disk, .. } = &node_pool.azure_node_pool;
    let encryption = encryption_at_host.map(|encryption| match encryption.state {
        Switch::Enabled => json!("Enabled"),
        Switch::Disabled => json!("Disabled"),
    });
    let disk = os_disk.as_ref().map(|disk| {
        let persistence = disk.persistence.map(|persistence| match persistence {
            Persistence::Persistent => json!("Persistent"),
            Persistence::Ephemeral => json!("Ephemeral"),
        });
        object([
            ("sizeGiB", disk.size_gibibytes.map(|size| json!(size))),
            ("diskStorageAccountType", disk.storage_account_type.as_ref().map(|kind| json!(kind))),
            ("encryptionSetID", disk.sse_encryption_set_resource_id.as_ref().map(|id| json!(id))),
            ("persistence", persistence),
        ])
    });
    object([
        ("vmSize", Some(json!(vm_size))),
        ("availabilityZone", node_pool.availability_zone.as_ref().map(|zone| json!(zone))),
        ("subnetID", node_pool.subnet.as_ref().map(|subnet| json!(subnet))),
        ("encryptionAtHost", encryption),
        ("osDisk", disk),
    ])
}

/// An object with the members that there are.
fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let said = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(said.collect::<Map<_, _>>())
}
