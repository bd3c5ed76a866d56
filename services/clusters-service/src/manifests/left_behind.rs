//! What of a cluster is on its management cluster, for whoever has to look for it there.

use pilothouse_clusters_service_api::LeftBehindObject;
use pilothouse_maestro_api::work_uid;

use super::{Names, managed_cluster_work_name};
use crate::config::Shard;
use crate::plan;
use crate::record::{ClusterRecord, CredentialRecord, NodePoolRecord};

/// Everything that may be there; nothing if nothing was ever posted.
pub(crate) fn left_behind(
    record: &ClusterRecord,
    node_pools: &[NodePoolRecord],
    credentials: &[CredentialRecord],
    shard: &Shard,
    (source, environment): (&str, &str),
) -> Vec<LeftBehindObject> {
    if !record.cloud_prepared {
        return Vec::new();
    }
    let object = |kind: &str, namespace: Option<&str>, name: &str| LeftBehindObject {
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    let id = &record.cluster.id;
    let names = Names::in_environment(record, environment);
    let namespace = Some(names.namespace.as_str());
    let mut left = vec![
        object("ManagedCluster", None, id.as_str()),
        object("Namespace", None, &names.namespace),
        object("Namespace", None, &names.control_plane()),
        object("HostedCluster", namespace, &names.hosted_cluster),
    ];
    let pools = node_pools.iter().map(|pool| names.node_pool(&pool.node_pool.id));
    left.extend(pools.map(|name| object("NodePool", namespace, &name)));
    let works = plan::names(record, node_pools, credentials);
    // The one for the `ManagedCluster` is not wrapped in another.
    let wrapped = works.iter().filter(|name| **name != managed_cluster_work_name(id));
    left.extend(wrapped.map(|name| object("ManifestWork", Some(&shard.work_namespace), name)));
    let bundles = works.iter().map(|name| work_uid(source, &shard.consumer, name).to_string());
    left.extend(bundles.map(|id| object("ResourceBundle", None, &id)));
    left
}
