//! Changes of clusters.

use jiff::Timestamp;
use pilothouse_clusters_service_api::{Cluster, ClusterId, ClusterUpdate, NodePool};
use pilothouse_http::Context;
use pilothouse_store::{Conflict, Error as StoreError};

use super::{ATTEMPTS, Clusters, Mode};
use crate::admission;
use crate::config::Config;
use crate::record::{ClusterRecord, Origin};
use crate::records::Stored;
use crate::refusal::Refusal;

impl Clusters {
    /// Asks for a cluster to be changed. The same operation again changes nothing.
    pub(crate) async fn cluster_update(
        &self,
        context: &Context,
        id: &ClusterId,
        mut update: ClusterUpdate,
        mode: Mode,
    ) -> Result<Cluster, Refusal> {
        let origin = admission::origin(&mut update.properties, context.correlation_id());
        for _ in 0..ATTEMPTS {
            let Some((stored, node_pools)) = self.with_node_pools(id).await? else {
                return Err(Refusal::cluster_not_found(id.as_str()));
            };
            let now = self.clock.now();
            let after = changed(&stored.value, &update, &node_pools, &self.config, &origin, now)?;
            let Some(after) = after else { return Ok(stored.value.cluster) };
            if mode == Mode::DryRun {
                return Ok(after.cluster);
            }
            match self.records.save(Some((&after, &stored.etag)), &[], &[]).await {
                Ok(()) => return Ok(after.cluster),
                // It was written in between, or has another node pool: look again.
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Refusal::Busy(format!("cluster `{id}`")))
    }

    /// A cluster, and the node pools it has. In this order: one that is made from here on makes that the cluster cannot be
    /// written as it was read.
    pub(super) async fn with_node_pools(
        &self,
        id: &ClusterId,
    ) -> Result<Option<(Stored<ClusterRecord>, Vec<NodePool>)>, Refusal> {
        let Some(stored) = self.records.cluster_get(id).await? else { return Ok(None) };
        let node_pools = self.records.node_pool_list(id).await?;
        Ok(Some((stored, node_pools.into_iter().map(|stored| stored.value.node_pool).collect())))
    }
}

/// The record with a change in it; `None` if there is nothing to change.
///
/// What is allowed is judged by the record that is changed, whatever it has become since the request came: two that ask for
/// different versions at once must not bring a control plane back.
fn changed(
    record: &ClusterRecord,
    update: &ClusterUpdate,
    node_pools: &[NodePool],
    config: &Config,
    origin: &Origin,
    now: Timestamp,
) -> Result<Option<ClusterRecord>, Refusal> {
    let update = admission::cluster_update(update.clone(), &record.cluster, node_pools, config)?;
    if record.deletion.is_some() {
        let id = &record.cluster.id;
        return Err(Refusal::Conflict(format!(
            "cluster `{id}` is being deleted; it is not changed any more"
        )));
    }
    let mut after = record.clone();
    Ok(after.change(&update, origin, now).then_some(after))
}

pub(super) fn cluster_error(error: StoreError, id: &ClusterId) -> Refusal {
    match error {
        StoreError::Conflict(Conflict::Missing { .. }) => Refusal::cluster_not_found(id.as_str()),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_clusters_service_api::{Azure, NewCluster, Version};

    use super::*;

    #[test]
    fn a_version_is_judged_by_the_record_that_is_changed_and_not_by_one_that_was_read_before() {
        let (config, now) = (Config::default(), Timestamp::UNIX_EPOCH);
        let new = NewCluster {
            name: "first".into(),
            version: Version::of_number("4.20.3"),
            azure: Azure {
                subscription_id: "11111111-2222-3333-4444-555555555555".into(),
                resource_group_name: "group".into(),
                resource_name: "first".into(),
                managed_resource_group_name: "managed".into(),
                ..Azure::default()
            },
            ..NewCluster::default()
        };
        let id = "0123456789abcdefghijklmnopqrstuv".parse().unwrap();
        let cluster = admission::cluster(new, id, &config, now).unwrap();
        let read = ClusterRecord::new(cluster, Origin::default());
        let to = |version: &str, record: &ClusterRecord| {
            let version = Some(Version::of_number(version));
            let update = ClusterUpdate { version, ..ClusterUpdate::default() };
            changed(record, &update, &[], &config, &Origin::default(), now)
        };
        let newer = to("4.21.0", &read).unwrap().expect("a change");
        assert!(to("4.20.5", &read).unwrap().is_some());
        let refusal = to("4.20.5", &newer).unwrap_err().to_string();
        assert!(refusal.contains("cannot go back"), "{refusal}");
    }
}
