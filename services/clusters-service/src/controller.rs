//! The controller of clusters: observe, plan, execute, until nothing is left to do but wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use pilothouse_clusters_service_api::{ClusterId, ClusterState, NodePoolStateValue};
use pilothouse_http::Context;
use pilothouse_maestro_api::{RestClient, SourceClient, work_uid};
use pilothouse_runtime::{Chain, Clock, Next, Reconcile, TaskError};
use pilothouse_store::{Conflict, Decision, Error as StoreError};
use tracing::{debug, info, warn};

use crate::cloud::{Cloud, CloudFailure};
use crate::config::Config;
use crate::error::Impossible;
use crate::manifests::{self, Settings};
use crate::metrics::Metrics;
use crate::observed::Bundle;
use crate::plan::{self, Action, Plan, Step, World};
use crate::record::{ClusterRecord, CredentialRecord, NodePoolRecord, ShardRecord};
use crate::records::{Records, Stored};

/// A pass through a whole life needs far fewer; more would be two writers fighting.
const ROUNDS: usize = 20;
/// How long the calls of one round may take together.
const ROUND_LIMIT: Duration = Duration::from_secs(120);

/// Brings clusters to where they should be.
#[derive(Debug)]
pub(crate) struct ClusterController {
    pub(crate) records: Records,
    pub(crate) cloud: Cloud,
    pub(crate) maestro: RestClient,
    pub(crate) source: SourceClient,
    pub(crate) config: Arc<Config>,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
}

/// Why an action, or an observation, failed.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Cloud(#[from] CloudFailure),
    #[error(transparent)]
    Maestro(#[from] pilothouse_maestro_api::Error),
    #[error("the store failed")]
    Store(#[from] StoreError),
}

/// What a cluster and its node pools are stored as.
struct Documents {
    cluster: Stored<ClusterRecord>,
    node_pools: Vec<Stored<NodePoolRecord>>,
    shard: ShardRecord,
    credentials: Vec<Stored<CredentialRecord>>,
}

/// How a round ended.
enum Round {
    /// Something was done that makes more possible.
    Again,
    /// There is nothing to do before something happens, or time passes.
    Rest(Next),
}

impl Reconcile for ClusterController {
    type Key = ClusterId;

    async fn list(&self) -> Result<Vec<ClusterId>, TaskError> {
        // Before the clusters: whatever comes or goes in between shows in the count.
        let seats = self.records.seats_list().await?;
        let (records, _) = self.records.cluster_list(None).await?;
        for shard in self.records.recount(&seats, &records).await? {
            warn!(
                shard,
                "a management cluster had another number of clusters than was written down; put right"
            );
        }
        self.metrics.count_states(records.iter().map(|record| record.cluster.state));
        Ok(records.into_iter().map(|record| record.cluster.id).collect())
    }

    async fn reconcile(&self, id: &ClusterId) -> Result<Next, TaskError> {
        for _ in 0..ROUNDS {
            match self.round(id).await? {
                Round::Again => {}
                Round::Rest(next) => return Ok(next),
            }
        }
        Err(Box::new(Impossible("the cluster did not come to rest; somebody else keeps changing it")))
    }
}

impl ClusterController {
    async fn round(&self, id: &ClusterId) -> Result<Round, TaskError> {
        let Some(documents) = self.load(id).await? else {
            return Ok(Round::Rest(Next::Done));
        };
        let record = &documents.cluster.value;
        let shard = &documents.shard.shard;
        let node_pools: Vec<NodePoolRecord> =
            documents.node_pools.iter().map(|stored| stored.value.clone()).collect();
        let credentials: Vec<CredentialRecord> =
            documents.credentials.iter().map(|stored| stored.value.clone()).collect();
        let names = plan::names(record, &node_pools, &credentials);
        let bundles = match self.observe(&shard.consumer, names).await {
            Ok(bundles) => bundles,
            Err(failed) => {
                let step = if record.deletion.is_some() { Step::Delete } else { Step::Post };
                return Err(self.cluster_failed(id, step, failed).await);
            }
        };
        let lost = documents.shard.out_of_reach();
        let world = World {
            cluster: record,
            node_pools: &node_pools,
            credentials: &credentials,
            bundles: &bundles,
            shard,
            lost: lost.as_deref(),
            settings: &self.settings,
            config: &self.config,
            deadlines: &self.config.deadlines,
            now: self.clock.now(),
        };
        let plan = plan::plan(&world)?;
        if !self.save(&documents, &plan).await? {
            return Ok(Round::Again);
        }
        self.execute(id, &documents, &plan).await
    }

    async fn load(&self, id: &ClusterId) -> Result<Option<Documents>, TaskError> {
        let Some(cluster) = self.records.cluster_get(id).await? else { return Ok(None) };
        let node_pools = self.records.node_pool_list(id).await?;
        let shard = self.records.shard_get(&cluster.value.shard).await?;
        let shard = shard.ok_or(Impossible("the cluster's management cluster is not known any more"))?.value;
        let credentials = self.records.credential_list(id).await?;
        Ok(Some(Documents { cluster, node_pools, shard, credentials }))
    }

    /// What Maestro has under these names.
    async fn observe(&self, consumer: &str, names: Vec<String>) -> Result<BTreeMap<String, Bundle>, Failed> {
        let reads = names.into_iter().map(async |name: String| {
            let id = work_uid(self.source.source(), consumer, &name).to_string();
            let found = self.maestro.resource_bundle_get(&id).await?;
            Ok::<_, Failed>(found.map(|bundle| (name, Bundle::of(bundle))))
        });
        Ok(try_join_all(reads).await?.into_iter().flatten().collect())
    }

    /// Writes what has changed; false if somebody else was faster.
    async fn save(&self, documents: &Documents, plan: &Plan) -> Result<bool, StoreError> {
        let Stored { value: before, etag } = &documents.cluster;
        let cluster = (plan.cluster != *before).then_some((&plan.cluster, etag));
        let node_pools: Vec<_> = documents
            .node_pools
            .iter()
            .zip(&plan.node_pools)
            .filter(|(before, after)| before.value != **after)
            .map(|(before, after)| (after, &before.etag))
            .collect();
        let credentials: Vec<_> = documents
            .credentials
            .iter()
            .zip(&plan.credentials)
            .filter(|(before, after)| before.value != **after)
            .map(|(before, after)| (after, &before.etag))
            .collect();
        match self.records.save(cluster, &node_pools, &credentials).await {
            Ok(()) => {
                log_transition(before, &plan.cluster);
                Ok(true)
            }
            Err(StoreError::Conflict(Conflict::Changed { .. } | Conflict::Missing { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn execute(&self, id: &ClusterId, documents: &Documents, plan: &Plan) -> Result<Round, TaskError> {
        let mut again = plan.again;
        for action in &plan.actions {
            debug!(cluster = %id, ?action, "acting");
            self.metrics.acted(action);
            let outdated = match self.act(plan, documents, action).await {
                Ok(()) => false,
                // Somebody was faster: what to do is decided by what is there now.
                Err(Failed::Maestro(pilothouse_maestro_api::Error::Conflict(_))) => true,
                Err(failed) => return Err(self.failed(id, plan, action, failed).await),
            };
            again |= match action {
                Action::PrepareCloud | Action::RemoveNodePool(_) | Action::RemoveCredential(_) => true,
                Action::Update(..) if outdated => true,
                // What comes of these is told by Maestro, or there is nothing left to look at.
                Action::Create(_)
                | Action::Update(..)
                | Action::DeleteBundle(_)
                | Action::DeleteCloud
                | Action::RemoveCluster => false,
            };
        }
        if again {
            return Ok(Round::Again);
        }
        let next = plan.look_again.map_or(Next::Done, |moment| Next::After(self.clock.until(moment)));
        Ok(Round::Rest(next))
    }

    async fn act(&self, plan: &Plan, documents: &Documents, action: &Action) -> Result<(), Failed> {
        let record = &plan.cluster;
        match action {
            Action::PrepareCloud => {
                self.cloud.ensure(&record.cluster, &context(record)).await?;
                self.cloud_prepared(&record.cluster.id).await?;
            }
            Action::Create(work) => match self.source.work_create(work).await {
                Ok(()) => info!(cluster = %record.cluster.id, work = work.name, "posted manifests"),
                // Posted before a crash, or its deletion was not over when we looked: the next pass sees which.
                Err(pilothouse_maestro_api::Error::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            },
            Action::Update(work, version) => {
                self.source.work_update(work, *version).await?;
                info!(cluster = %record.cluster.id, work = work.name, version, "posted changed manifests");
            }
            Action::DeleteBundle(name) => {
                let consumer = &documents.shard.shard.consumer;
                let id = work_uid(self.source.source(), consumer, name).to_string();
                self.maestro.resource_bundle_delete(&id).await?;
                info!(cluster = %record.cluster.id, work = name, "asked for manifests to be removed");
            }
            Action::DeleteCloud => self.cloud.delete(&record.cluster, &context(record)).await?,
            Action::RemoveNodePool(index) => {
                let stored = &documents.node_pools[*index];
                self.node_pool_remove(&stored.value).await?;
            }
            Action::RemoveCredential(index) => {
                self.records.credential_remove(&documents.credentials[*index].value).await?;
            }
            Action::RemoveCluster => {
                if let Some(stored) = self.records.cluster_get(&record.cluster.id).await?
                    && stored.value.deletion.is_some()
                {
                    self.records.cluster_remove(&stored).await?;
                    info!(cluster = %record.cluster.id, "the cluster is gone");
                }
            }
        }
        Ok(())
    }

    async fn cloud_prepared(&self, id: &ClusterId) -> Result<(), StoreError> {
        let now = self.clock.now();
        let updated = self.records.cluster_update(id, |record| {
            record.cloud_prepared = true;
            record.cluster.status.dns_ready = true;
            record.pass_checks(now);
            if record.deletion.is_none() {
                record.enter(ClusterState::Installing, "step 6: posting the manifests to Maestro", now);
            }
            Decision::Write
        });
        updated.await.map(drop)
    }

    /// Only what is still to go: by now somebody may have made a new one under the same id.
    async fn node_pool_remove(&self, record: &NodePoolRecord) -> Result<(), StoreError> {
        let shown = &record.node_pool;
        let found = self.records.node_pool_get(&shown.cluster_id, &shown.id).await?;
        match found {
            Some(stored) if stored.value.node_pool.creation_timestamp == shown.creation_timestamp => {
                self.records.node_pool_remove(&stored).await?;
                info!(cluster = %shown.cluster_id, node_pool = %shown.id, "the node pool is gone");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Notes a failure on whatever it is about, and gives it back as the end of the pass.
    async fn failed(&self, id: &ClusterId, plan: &Plan, action: &Action, failed: Failed) -> TaskError {
        let work = match action {
            Action::Create(work) | Action::Update(work, _) => Some(work.name.as_str()),
            Action::DeleteBundle(name) => Some(name.as_str()),
            _ => None,
        };
        let node_pool = plan
            .node_pools
            .iter()
            .find(|record| Some(manifests::node_pool_work_name(id, &record.node_pool.id).as_str()) == work);
        match node_pool {
            Some(record) => self.node_pool_failed(record, failed).await,
            None => self.cluster_failed(id, Step::of(action), failed).await,
        }
    }

    async fn cluster_failed(&self, id: &ClusterId, step: Step, failed: Failed) -> TaskError {
        let observed = Chain(&failed).to_string();
        let (deadlines, now) = (&self.config.deadlines, self.clock.now());
        let is_check = matches!(failed, Failed::Cloud(CloudFailure::Foreign { .. }));
        let noted = self.records.cluster_update(id, |record| {
            let after =
                match is_check && record.deletion.is_none() && record.cluster.state != ClusterState::Ready {
                    true => plan::after_failed_check(record.clone(), &observed, now),
                    false => plan::after_failure(record.clone(), step, &observed, deadlines, now),
                };
            write_if_changed(record, after)
        });
        // The failure itself is what has to be told; that it could not be noted is the smaller news.
        if let Err(error) = noted.await {
            debug!(cluster = %id, error = %Chain(&error), "a failure could not be noted");
        }
        Box::new(failed)
    }

    async fn node_pool_failed(&self, record: &NodePoolRecord, failed: Failed) -> TaskError {
        let observed = Chain(&failed).to_string();
        let (shown, now) = (&record.node_pool, self.clock.now());
        let noted = self.records.node_pool_update(&shown.cluster_id, &shown.id, |record| {
            let mut after = record.clone();
            let state: NodePoolStateValue = after.node_pool.status.state.value;
            after.enter(state, format!("step 6: Maestro could not be told; trying again: {observed}"), now);
            write_if_changed(record, after)
        });
        if let Err(error) = noted.await {
            debug!(node_pool = %shown.id, error = %Chain(&error), "a failure could not be noted");
        }
        Box::new(failed)
    }
}

fn write_if_changed<T: PartialEq>(record: &mut T, after: T) -> Decision {
    if *record == after {
        return Decision::Keep;
    }
    *record = after;
    Decision::Write
}

fn context(record: &ClusterRecord) -> Context {
    let context = Context::new(ROUND_LIMIT);
    match &record.origin.correlation_id {
        Some(id) => context.with_correlation_id(id),
        None => context,
    }
}

fn log_transition(before: &ClusterRecord, after: &ClusterRecord) {
    let (from, to) = (before.cluster.state, after.cluster.state);
    if from != to {
        let correlation = after.origin.correlation_id.as_deref().unwrap_or_default();
        info!(cluster = %after.cluster.id, ?from, ?to, correlation, "state changed");
    }
}
