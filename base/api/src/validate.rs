//! What must hold of a resource beyond the form of its fields.
//!
//! Every check adds to the list and none stops it, so that a caller learns everything at once.

mod cidr;
mod cluster;
mod immutable;
mod node_pool;
mod platform;
mod text;

pub(crate) use self::cluster::cluster;
pub(crate) use self::node_pool::node_pool;

/// Fields of a cluster that a patch may change but not remove.
pub(crate) const CLUSTER_NEVER_NULL: &[&str] = &[
    "properties.version.id",
    "properties.network.hostPrefix",
    "properties.autoscaling.maxNodesTotal",
    "properties.autoscaling.maxPodGracePeriodSeconds",
    "properties.autoscaling.maxNodeProvisionTimeSeconds",
    "properties.autoscaling.podPriorityThreshold",
    "properties.nodeDrainTimeoutMinutes",
    "properties.platform.vnetIntegrationSubnetId",
];

/// Fields of a node pool that a patch may change but not remove.
pub(crate) const NODE_POOL_NEVER_NULL: &[&str] = &[
    "properties.version.id",
    "properties.autoRepair",
    "properties.platform.osDisk.sizeGiB",
    "properties.platform.osDisk.diskStorageAccountType",
    "properties.platform.osDisk.diskType",
    "properties.platform.enableEncryptionAtHost",
];
