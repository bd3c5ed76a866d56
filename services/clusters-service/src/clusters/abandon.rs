//! The end of a cluster whose management cluster, or whose cloud, does not come back: everything goes but what is there, and
//! whoever decides so is told what that is.

use jiff::Timestamp;
use pilothouse_clusters_service_api::{ClusterId, ClusterState, LeftBehind};
use pilothouse_store::Error as StoreError;
use tracing::warn;

use super::{ATTEMPTS, Clusters, Mode};
use crate::cloud;
use crate::error::Impossible;
use crate::manifests;
use crate::plan::plus;
use crate::record::{ClusterRecord, Deletion, ShardRecord};
use crate::refusal::Refusal;
use crate::service::SOURCE_ID;

impl Clusters {
    /// Deletes a cluster without waiting for its management cluster. Asking again answers the same.
    pub(crate) async fn cluster_abandon(&self, id: &ClusterId, mode: Mode) -> Result<LeftBehind, Refusal> {
        for _ in 0..ATTEMPTS {
            let stored = self.records.cluster_get(id).await?;
            let stored = stored.ok_or_else(|| Refusal::cluster_not_found(id.as_str()))?;
            if let Some(left) = stored.value.left_behind {
                return Ok(left);
            }
            let shard = self.records.shard_get(&stored.value.shard).await?;
            let shard = shard.ok_or_else(|| Refusal::shard_not_found(stored.value.shard.as_str()))?.value;
            let now = self.clock.now();
            let reason = self.reason_to_abandon(&stored.value, &shard, now)?;
            let node_pools: Vec<_> =
                self.records.node_pool_list(id).await?.into_iter().map(|stored| stored.value).collect();
            let credentials: Vec<_> =
                self.records.credential_list(id).await?.into_iter().map(|stored| stored.value).collect();
            let ours = (SOURCE_ID, self.config.environment.as_str());
            let mut items =
                manifests::left_behind(&stored.value, &node_pools, &credentials, &shard.shard, ours);
            let base_zone = self.config.base_zone();
            let base_zone = base_zone.map_err(|_| Impossible("the base zone was usable at the start"))?;
            items.extend(cloud::left_behind(&stored.value.cluster, base_zone.as_ref()));
            let left = LeftBehind {
                kind: "LeftBehind".to_owned(),
                cluster_id: id.clone(),
                provision_shard: shard.shard.id.clone(),
                management_cluster: shard.shard.consumer.clone(),
                timestamp: now,
                reason,
                items,
            };
            if mode == Mode::DryRun {
                return Ok(left);
            }
            let mut after = stored.value;
            after.deletion.get_or_insert(Deletion { requested_at: now });
            after.left_behind = Some(left.clone());
            after.enter(ClusterState::Uninstalling, "it is deleted without its management cluster", now);
            match self.records.save(Some((&after, &stored.etag)), &[], &[]).await {
                Ok(()) => {
                    let items = serde_json::to_string(&left.items).unwrap_or_default();
                    let (shard, reason) = (&left.provision_shard, &left.reason);
                    warn!(cluster = %id, shard, reason, left = items, "a cluster is deleted without its management cluster");
                    return Ok(left);
                }
                // Somebody wrote in between: look again.
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Refusal::Busy(format!("cluster `{id}`")))
    }

    /// Why nobody has to wait any longer, or a refusal that says for how long.
    fn reason_to_abandon(
        &self,
        record: &ClusterRecord,
        shard: &ShardRecord,
        now: Timestamp,
    ) -> Result<String, Refusal> {
        if let Some(lost) = shard.out_of_reach() {
            return Ok(lost);
        }
        let (id, consumer) = (&record.cluster.id, &shard.shard.consumer);
        let due = record.deletion.as_ref().map(|it| plus(it.requested_at, self.config.deadlines.delete.0));
        let (why, remedy) = match due {
            Some(due) if now >= due => return Ok(format!("its deletion was due at {due}")),
            Some(due) => (format!("its deletion is not overdue before {due}"), "wait until then"),
            None => ("its deletion was not asked for".to_owned(), "delete it without `best_effort`"),
        };
        Err(Refusal::Conflict(format!(
            "cluster `{id}` cannot be deleted with `best_effort`: its management cluster `{consumer}` is not known to be lost, \
             and {why}; {remedy}, or, if `{consumer}` will not come back, put provision shard `{}` `offline` and ask again",
            shard.shard.id
        )))
    }
}
