//! The `ManagedCluster`: how the multicluster engine knows a cluster.

use pilothouse_crds::{ManagedCluster, ManagedClusterSpec};
use serde_json::Value;

use super::{NotWritten, metadata};
use crate::record::ClusterRecord;

pub(super) fn manifest(record: &ClusterRecord) -> Result<Value, NotWritten> {
    let name = record.cluster.id.as_str();
    let spec = ManagedClusterSpec { hub_accepts_client: true, ..ManagedClusterSpec::default() };
    let mut managed_cluster = ManagedCluster::new(name, spec);
    managed_cluster.metadata = metadata(name, record, &record.origin);
    serde_json::to_value(managed_cluster)
}
