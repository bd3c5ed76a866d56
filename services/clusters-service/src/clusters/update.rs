//! Changes of clusters.

use pilothouse_clusters_service_api::{Cluster, ClusterId, ClusterUpdate};
use pilothouse_http::Context;
use pilothouse_store::{Conflict, Decision, Error as StoreError};

use super::{Clusters, Mode};
use crate::admission;
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
        let record = self.cluster_record(id).await?;
        let node_pools = self.records.node_pool_list(id).await?;
        let node_pools: Vec<_> = node_pools.into_iter().map(|stored| stored.value.node_pool).collect();
        let update = admission::cluster_update(update, &record.cluster, &node_pools, &self.config)?;
        let now = self.clock.now();
        let mut going = false;
        let mut preview = None;
        let updated = self.records.cluster_update(id, |record| {
            going = record.deletion.is_some();
            let mut after = record.clone();
            if going || !after.change(&update, &origin, now) {
                return Decision::Keep;
            }
            if mode == Mode::DryRun {
                preview = Some(after.cluster);
                return Decision::Keep;
            }
            *record = after;
            Decision::Write
        });
        let record = updated.await.map_err(|error| cluster_error(error, id))?;
        if going {
            return Err(Refusal::Conflict(format!(
                "cluster `{id}` is being deleted; it is not changed any more"
            )));
        }
        Ok(preview.unwrap_or(record.cluster))
    }
}

pub(super) fn cluster_error(error: StoreError, id: &ClusterId) -> Refusal {
    match error {
        StoreError::Conflict(Conflict::Missing { .. }) => Refusal::cluster_not_found(id.as_str()),
        error => error.into(),
    }
}
