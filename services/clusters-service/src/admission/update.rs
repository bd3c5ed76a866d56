//! Changes of clusters.

use pilothouse_clusters_service_api::{Cluster, ClusterUpdate, NodePool, Version};

use super::{LARGEST_SKEW, numbers, served, settings};
use crate::config::Config;
use crate::refusal::Refusal;

/// Checks a change of a cluster, and fills in what was left out of it.
pub(crate) fn cluster_update(
    mut update: ClusterUpdate,
    cluster: &Cluster,
    node_pools: &[NodePool],
    config: &Config,
) -> Result<ClusterUpdate, Refusal> {
    settings::same_choices(&cluster.properties, &update.properties)?;
    settings::drain(update.node_drain_grace_period.as_ref())?;
    settings::access(update.api.as_ref().and_then(|api| api.cidr_block_access.as_ref()))?;
    settings::mirrors(update.registry_config.as_ref())?;
    settings::autoscaler(update.autoscaler.as_ref())?;
    if update.azure.as_ref().is_some_and(|azure| azure.key_version().is_some()) {
        let problem = "what a cluster stores is not encrypted with the customer's key yet, so no other version of it can \
                       be used; everything else can be changed";
        return Err(Refusal::not_yet("azure.etcd_encryption.data_encryption.customer_managed.kms", problem));
    }
    if let Some(version) = update.version.take() {
        update.version = Some(upgrade(version, &cluster.version, node_pools, config)?);
    }
    Ok(update)
}

/// Never back, one minor at a time, and not away from the nodes.
pub(super) fn upgrade(
    wanted: Version,
    current: &Version,
    node_pools: &[NodePool],
    config: &Config,
) -> Result<Version, Refusal> {
    let wanted = served(wanted, config)?;
    let minor = |version: &Version| numbers(version).and_then(|numbers| numbers.get(1).copied());
    if numbers(&wanted) < numbers(current) {
        let problem =
            format!("`{}` is older than `{}`; a control plane cannot go back", wanted.id, current.id);
        return Err(Refusal::field("version.id", problem));
    }
    if minor(&wanted) > minor(current).map(|minor| minor + 1) {
        let problem = format!("`{}` is more than one minor version from `{}`", wanted.id, current.id);
        return Err(Refusal::field("version.id", problem));
    }
    let behind = node_pools
        .iter()
        .find(|pool| minor(&wanted) > minor(&pool.version).map(|minor| minor + LARGEST_SKEW));
    if let Some(pool) = behind {
        let problem = format!(
            "node pool `{}` runs `{}`, and nodes may be at most {LARGEST_SKEW} minor versions behind; upgrade it first",
            pool.id, pool.version.id
        );
        return Err(Refusal::field("version.id", problem));
    }
    Ok(wanted)
}
