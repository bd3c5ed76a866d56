//! What a pass sees: the records of a cluster, what Maestro has of it, and what is to be done about that. Looking changes
//! nothing, so any replica may.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::try_join_all;
use pilothouse_clusters_service_api::ClusterId;
use pilothouse_maestro_api::{ResourceBundle, work_uid};
use pilothouse_runtime::{Chain, TaskError};
use tracing::{debug, warn};

use super::moments::{self, Times};
use super::{ClusterController, Failed, context};
use crate::error::Impossible;
use crate::manifests::CLUSTER_ID_LABEL;
use crate::observed::Bundle;
use crate::plan::{self, Plan, Step, World};
use crate::record::{ClusterRecord, CredentialRecord, NodePoolRecord, ShardRecord};
use crate::records::Stored;

/// How long Maestro may take where nothing depends on its answer.
const BRIEFLY: Duration = Duration::from_secs(5);

/// What a cluster and its node pools are stored as.
pub(super) struct Documents {
    pub(super) cluster: Stored<ClusterRecord>,
    pub(super) node_pools: Vec<Stored<NodePoolRecord>>,
    pub(super) shard: ShardRecord,
    pub(super) credentials: Vec<Stored<CredentialRecord>>,
}

/// What was seen.
pub(super) enum Look {
    /// A cluster, and what to do about it.
    There(Box<Documents>, Box<Plan>),
    /// No such cluster any more, and the ids of bundles that were posted for it all the same: one that was under way when the
    /// cluster went, or whose answer did not come in time.
    Gone(Vec<String>),
    /// A cluster of which cannot be told how far it is, and in which step that is missing. Whoever has the part of the work
    /// says so on it.
    Blind(Step, Failed),
}

impl Look {
    /// Whether there is something to do or to write.
    pub(super) fn finds_work(&self) -> bool {
        match self {
            Self::There(documents, plan) => {
                plan.again || !plan.actions.is_empty() || documents.differ_from(plan)
            }
            Self::Gone(left) => !left.is_empty(),
            Self::Blind(..) => true,
        }
    }
}

impl Documents {
    /// Whether a plan has something to write.
    pub(super) fn differ_from(&self, plan: &Plan) -> bool {
        self.cluster.value != plan.cluster
            || !self.node_pools.iter().map(|stored| &stored.value).eq(&plan.node_pools)
            || !self.credentials.iter().map(|stored| &stored.value).eq(&plan.credentials)
    }
}

impl ClusterController {
    pub(super) async fn look(&self, id: &ClusterId) -> Result<Look, TaskError> {
        let Some(documents) = self.load(id).await? else {
            // That there is no record is no proof: it may have been lost, with a database that was put back or mistaken for
            // another. Nothing of such a cluster is touched.
            self.noticed.forget(id);
            if !self.records.cluster_is_gone(id).await? {
                return Ok(Look::Gone(Vec::new()));
            }
            let left = self.observe_all(id).await?.into_iter().filter(|bundle| bundle.deleted_at.is_none());
            return Ok(Look::Gone(left.map(|bundle| bundle.id).collect()));
        };
        let record = &documents.cluster.value;
        let shard = &documents.shard.shard;
        let node_pools: Vec<NodePoolRecord> =
            documents.node_pools.iter().map(|stored| stored.value.clone()).collect();
        let credentials: Vec<CredentialRecord> =
            documents.credentials.iter().map(|stored| stored.value.clone()).collect();
        let found = match self.observe(record, &shard.consumer, &node_pools, &credentials).await {
            Ok(found) => found,
            Err(failed) => {
                let step = if record.deletion.is_some() { Step::Delete } else { Step::Post };
                return Ok(Look::Blind(step, failed));
            }
        };
        let now = self.clock.now();
        let times = found.iter().map(|(name, bundle)| (name.clone(), Times::of(bundle))).collect();
        let bundles = found.into_iter().map(|(name, bundle)| (name, Bundle::of(bundle))).collect();
        let moments = self.noticed.look(record, &bundles, &times, now);
        let lost = documents.shard.out_of_reach();
        let missing = self.missing(record).await;
        let world = World {
            cluster: record,
            node_pools: &node_pools,
            credentials: &credentials,
            bundles: &bundles,
            missing: &missing,
            shard,
            lost: lost.as_deref(),
            settings: &self.settings,
            config: &self.config,
            deadlines: &self.config.deadlines,
            now,
        };
        let mut plan = plan::plan(&world)?;
        moments::add(&mut plan, record, moments);
        Ok(Look::There(Box::new(documents), Box::new(plan)))
    }

    /// What somebody has removed from the cloud or changed there, if this cluster's turn has come to be looked at.
    async fn missing(&self, record: &ClusterRecord) -> Vec<String> {
        let id = &record.cluster.id;
        if !record.cloud_prepared || record.deletion.is_some() || !self.uninspected().contains(id) {
            return Vec::new();
        }
        match self.cloud.missing(record, &context(record)).await {
            Ok(missing) => missing,
            Err(error) => {
                debug!(cluster = %id, error = %Chain(&error), "the cloud does not say what it has; later");
                Vec::new()
            }
        }
    }

    async fn load(&self, id: &ClusterId) -> Result<Option<Documents>, TaskError> {
        let Some(cluster) = self.records.cluster_get(id).await? else { return Ok(None) };
        let node_pools = self.records.node_pool_list(id).await?;
        let shard = self.records.shard_get(&cluster.value.shard).await?;
        let shard = shard.ok_or(Impossible("the cluster's management cluster is not known any more"))?.value;
        let credentials = self.records.credential_list(id).await?;
        Ok(Some(Documents { cluster, node_pools, shard, credentials }))
    }

    /// What Maestro has of a cluster, by name. One that stays is known by what it should have; of one that goes everything
    /// has to go, whoever posted it and whenever.
    async fn observe(
        &self,
        record: &ClusterRecord,
        consumer: &str,
        node_pools: &[NodePoolRecord],
        credentials: &[CredentialRecord],
    ) -> Result<BTreeMap<String, ResourceBundle>, Failed> {
        if record.deletion.is_some() {
            let found = if record.is_abandoned() {
                self.observe_briefly(&record.cluster.id).await
            } else {
                self.observe_all(&record.cluster.id).await?
            };
            let named = found.into_iter().filter(|bundle| bundle.consumer_name == consumer);
            let named = named.filter_map(|bundle| Some((work_name(&bundle)?.to_owned(), bundle)));
            return Ok(named.collect());
        }
        let names = plan::names(record, node_pools, credentials);
        let reads = names.into_iter().map(async |name: String| {
            let id = work_uid(self.source.source(), consumer, &name).to_string();
            let found = self.maestro.resource_bundle_get(&id).await?;
            Ok::<_, Failed>(found.map(|bundle| (name, bundle)))
        });
        Ok(try_join_all(reads).await?.into_iter().flatten().collect())
    }

    /// Of a cluster that is not waited for: whatever Maestro says, if it does so at once.
    async fn observe_briefly(&self, id: &ClusterId) -> Vec<ResourceBundle> {
        match tokio::time::timeout(BRIEFLY, self.observe_all(id)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                warn!(cluster = %id, error = %Chain(&error), "Maestro is not waited for");
                Vec::new()
            }
            Err(_) => {
                warn!(cluster = %id, "Maestro does not answer, and is not waited for");
                Vec::new()
            }
        }
    }

    /// Every bundle that this service has posted for a cluster, by the mark on it.
    pub(super) async fn observe_all(
        &self,
        id: &ClusterId,
    ) -> Result<Vec<ResourceBundle>, pilothouse_maestro_api::Error> {
        let search = format!("payload->'metadata'->'labels'->>'{CLUSTER_ID_LABEL}'='{id}'");
        let mut found = self.maestro.resource_bundle_search(&search).await?;
        // Another source may have marked its own likewise; its ids are made otherwise.
        found.retain(|bundle| {
            let uid = |name| work_uid(self.source.source(), &bundle.consumer_name, name).to_string();
            work_name(bundle).is_some_and(|name| uid(name) == bundle.id)
        });
        Ok(found)
    }
}

/// The name of the work that a bundle was posted as.
fn work_name(bundle: &ResourceBundle) -> Option<&str> {
    bundle.metadata.as_ref()?["name"].as_str()
}
