//! The controller of clusters: observe, plan, execute, until nothing is left to do but wait.
//!
//! Any replica may look (`look`). Whoever finds something to do takes the part of the work that the cluster is in, and has
//! it alone from then on: a deletion that one replica carries out while another is still creating would leave behind what
//! arrives last.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use pilothouse_clusters_service_api::{ClusterId, ClusterState, NodePoolStateValue};
use pilothouse_http::Context;
use pilothouse_maestro_api::{RestClient, SourceClient, work_uid};
use pilothouse_runtime::{Chain, Clock, Lane, Next, Reconcile, TaskError, fault};
use pilothouse_store::{Conflict, Decision, Error as StoreError, Grant, Parts, Turn};
use tracing::{debug, info, warn};

use self::look::{Documents, Look};
use crate::cloud::{Cloud, CloudFailure};
use crate::config::Config;
use crate::error::Impossible;
use crate::lanes::Lanes;
use crate::manifests::{self, Settings};
use crate::metrics::Metrics;
use crate::plan::{self, Action, Plan, Step};
use crate::record::{ClusterRecord, NodePoolRecord, Prepared};
use crate::records::{Records, Stored};

mod look;
mod moments;

pub(crate) use moments::Noticed;

/// A pass through a whole life needs far fewer; more would be two writers fighting.
const ROUNDS: usize = 20;
/// How long the calls of one round may take together.
const ROUND_LIMIT: Duration = Duration::from_secs(120);
/// Soon, after the part of the work was lost to somebody.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The points around posting manifests to Maestro, and around asking it to remove some.
const PUBLISH: [&str; 2] = ["clusters-service.publish.before", "clusters-service.publish.after"];
const WITHDRAW: [&str; 2] = ["clusters-service.withdraw.before", "clusters-service.withdraw.after"];

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
    pub(crate) parts: Arc<Parts>,
    /// Of which it is to be looked whether the cloud still has what they need: everyone once in a while, since nobody tells.
    pub(crate) uninspected: Mutex<HashSet<ClusterId>>,
    /// When creations came past their steps.
    pub(crate) noticed: Noticed,
    /// Whose clusters wait behind whose.
    pub(crate) lanes: Lanes,
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

/// How a round ended.
enum Round {
    /// Something was done that makes more possible.
    Again,
    /// There is nothing to do before something happens, or time passes.
    Rest(Next),
    /// Another replica has the work.
    NotOurs,
}

/// Whether what a plan says could be written down.
enum Saved {
    Yes,
    /// Somebody asked for something meanwhile.
    Outdated,
    /// The part of the work is somebody else's by now.
    NotOurs,
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
        records.iter().for_each(|record| self.lanes.note(&record.cluster));
        let all: Vec<_> = records.into_iter().map(|record| record.cluster.id).collect();
        *self.uninspected() = all.iter().cloned().collect();
        Ok(all)
    }

    /// Subscriptions take turns.
    fn lane(&self, id: &ClusterId) -> Lane {
        self.lanes.of(id)
    }

    async fn reconcile(&self, id: &ClusterId) -> Result<Next, TaskError> {
        let outcome = Box::pin(self.pass(id)).await;
        self.parts.rest(id.as_str()).await;
        outcome
    }
}

impl ClusterController {
    fn uninspected(&self) -> MutexGuard<'_, HashSet<ClusterId>> {
        self.uninspected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the cloud was found to have is as it should be. Who leaves that to another replica looks again afterwards: the other one
    /// may have ended in the middle of it.
    fn inspected(&self, id: &ClusterId) {
        self.uninspected().remove(id);
    }

    /// Looks, and does what there is to do if that is ours to do.
    async fn pass(&self, id: &ClusterId) -> Result<Next, TaskError> {
        let token = self.parts.token(id.as_str()).await;
        let look = self.look(id).await?;
        if !look.finds_work() {
            self.inspected(id);
            return Ok(self.next(&look));
        }
        let grant = match self.parts.hold(id.as_str()).await? {
            Turn::Ours(grant) => grant,
            Turn::Theirs(remaining) => {
                debug!(cluster = %id, ?remaining, "another replica works on it");
                return Ok(Next::After(remaining));
            }
        };
        // What was seen before the part was ours, its last holder may have changed since.
        let look = (token == Some(grant.lease().token())).then_some(look);
        tokio::select! {
            biased;
            () = grant.clone().lost() => {
                info!(cluster = %id, "the part of the work was lost; stopping where it is");
                Ok(Next::After(LOOK_AGAIN))
            }
            outcome = self.rounds(id, &grant, look) => outcome,
        }
    }

    async fn rounds(&self, id: &ClusterId, grant: &Grant, mut seen: Option<Look>) -> Result<Next, TaskError> {
        for _ in 0..ROUNDS {
            let look = match seen.take() {
                Some(look) => look,
                None => self.look(id).await?,
            };
            match self.round(id, grant, look).await? {
                Round::Again => {}
                Round::Rest(next) => {
                    self.inspected(id);
                    return Ok(next);
                }
                Round::NotOurs => return Ok(Next::After(LOOK_AGAIN)),
            }
        }
        Err(Box::new(Impossible("the cluster did not come to rest; somebody else keeps changing it")))
    }

    async fn round(&self, id: &ClusterId, grant: &Grant, look: Look) -> Result<Round, TaskError> {
        if !look.finds_work() {
            return Ok(Round::Rest(self.next(&look)));
        }
        match look {
            Look::Blind(step, failed) => Err(self.cluster_failed(id, step, failed).await),
            Look::Gone(left) => {
                for bundle in left {
                    warn!(cluster = %id, bundle, "manifests of a cluster that is gone; asking for their removal");
                    fault::around(WITHDRAW, self.maestro.resource_bundle_delete(&bundle)).await?;
                }
                Ok(Round::Rest(Next::Done))
            }
            Look::There(documents, plan) => match self.save(grant, &documents, &plan).await? {
                Saved::Yes => self.execute(id, &documents, &plan).await,
                Saved::Outdated => Ok(Round::Again),
                Saved::NotOurs => Ok(Round::NotOurs),
            },
        }
    }

    /// When to look again if nothing happens.
    fn next(&self, look: &Look) -> Next {
        let moment = match look {
            Look::There(_, plan) => plan.look_again,
            Look::Gone(_) | Look::Blind(..) => None,
        };
        self.at(moment)
    }

    fn at(&self, moment: Option<Timestamp>) -> Next {
        moment.map_or(Next::Done, |moment| Next::After(self.clock.until(moment)))
    }

    /// Writes what has changed, or makes sure that nothing has: what is done next was decided by what was read.
    async fn save(&self, grant: &Grant, documents: &Documents, plan: &Plan) -> Result<Saved, StoreError> {
        let before = &documents.cluster.value;
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
        let Stored { etag, .. } = &documents.cluster;
        let cluster = (plan.cluster != *before).then_some(&plan.cluster);
        let saved =
            self.records.save_planned(grant.lease(), (before, etag), cluster, &node_pools, &credentials);
        match saved.await {
            Ok(()) => {
                log_transition(before, &plan.cluster);
                Ok(Saved::Yes)
            }
            Err(StoreError::Conflict(Conflict::Changed { .. } | Conflict::Missing { .. })) => {
                Ok(Saved::Outdated)
            }
            Err(StoreError::Conflict(Conflict::LeaseLost { .. })) => Ok(Saved::NotOurs),
            Err(error) => Err(error),
        }
    }

    async fn execute(&self, id: &ClusterId, documents: &Documents, plan: &Plan) -> Result<Round, TaskError> {
        let mut again = plan.again;
        for action in &plan.actions {
            debug!(cluster = %id, ?action, "acting");
            self.metrics.acted(action);
            again |= match self.act(plan, documents, action).await {
                Ok(more) => more,
                // Somebody was faster: what to do is decided by what is there now.
                Err(Failed::Maestro(pilothouse_maestro_api::Error::Conflict(_))) => {
                    matches!(action, Action::Update(..))
                }
                Err(failed) if self.is_given_up(plan, action, &failed) => {
                    warn!(cluster = %id, ?action, error = %Chain(&failed), "it is given up; what it was to remove is left");
                    false
                }
                Err(failed) => return Err(self.failed(id, plan, action, failed).await),
            };
        }
        if again {
            return Ok(Round::Again);
        }
        Ok(Round::Rest(self.at(plan.look_again)))
    }

    /// Whether a deletion ends although this of it failed. The cloud has the usual time first, counted from when the deletion was
    /// asked for: it is not to blame for a management cluster that is lost. What it has begun to remove is waited for as long as
    /// a deletion may take.
    fn is_given_up(&self, plan: &Plan, action: &Action, failed: &Failed) -> bool {
        let (Some(left), Some(deletion)) = (&plan.cluster.left_behind, &plan.cluster.deletion) else {
            return false;
        };
        let deadlines = &self.config.deadlines;
        match (action, failed) {
            (Action::DeleteBundle(_), _) => true,
            (Action::DeleteCloud, Failed::Cloud(CloudFailure::StillThere(_) | CloudFailure::Changed(_))) => {
                self.clock.now() >= plan::plus(left.timestamp, deadlines.delete.0)
            }
            (Action::DeleteCloud, Failed::Cloud(_)) => {
                self.clock.now() >= plan::plus(deletion.requested_at, deadlines.cloud.0)
            }
            _ => false,
        }
    }

    /// Answers whether there is more to plan at once. What comes of most actions is told by Maestro, or there is nothing left to
    /// look at.
    async fn act(&self, plan: &Plan, documents: &Documents, action: &Action) -> Result<bool, Failed> {
        let record = &plan.cluster;
        match action {
            Action::PrepareCloud => {
                let prepared = self.cloud.ensure(record, &context(record)).await?;
                self.cloud_prepared(&record.cluster.id, prepared.as_ref()).await?;
                return Ok(true);
            }
            Action::RestoreCloud => {
                let prepared = self.cloud.ensure(record, &context(record)).await?;
                warn!(cluster = %record.cluster.id, "something was removed or changed in the cloud; put back");
                return Ok(self.identities_changed(&record.cluster.id, prepared.as_ref()).await?);
            }
            Action::Create(work) => match fault::around(PUBLISH, self.source.work_create(work)).await {
                Ok(()) => info!(cluster = %record.cluster.id, work = work.name, "posted manifests"),
                // Posted before a crash, or its deletion was not over when we looked: the next pass sees which.
                Err(pilothouse_maestro_api::Error::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            },
            Action::Update(work, version) => {
                fault::around(PUBLISH, self.source.work_update(work, *version)).await?;
                info!(cluster = %record.cluster.id, work = work.name, version, "posted changed manifests");
            }
            Action::DeleteBundle(name) => {
                let consumer = &documents.shard.shard.consumer;
                let id = work_uid(self.source.source(), consumer, name).to_string();
                fault::around(WITHDRAW, self.maestro.resource_bundle_delete(&id)).await?;
                info!(cluster = %record.cluster.id, work = name, "asked for manifests to be removed");
            }
            Action::DeleteCloud => self.cloud.delete(record, &context(record)).await?,
            Action::RemoveNodePool(index) => {
                let stored = &documents.node_pools[*index];
                self.node_pool_remove(&stored.value).await?;
                return Ok(true);
            }
            Action::RemoveCredential(index) => {
                self.records.credential_remove(&documents.credentials[*index].value).await?;
                return Ok(true);
            }
            Action::RemoveCluster => {
                if let Some(stored) = self.records.cluster_get(&record.cluster.id).await?
                    && stored.value.deletion.is_some()
                {
                    self.records.cluster_remove(&stored).await?;
                    match &stored.value.left_behind {
                        None => info!(cluster = %record.cluster.id, "the cluster is gone"),
                        Some(left) => {
                            let items = serde_json::to_string(&left.items).unwrap_or_default();
                            let shard = &left.provision_shard;
                            warn!(cluster = %record.cluster.id, shard, left = items, "the cluster is gone; this may be left of it");
                        }
                    }
                }
            }
        }
        Ok(false)
    }

    /// What manifests are made of is written with the news itself: so they are never posted without it, or with anything else.
    async fn cloud_prepared(&self, id: &ClusterId, prepared: Option<&Prepared>) -> Result<(), StoreError> {
        let now = self.clock.now();
        let updated = self.records.cluster_update(id, |record| {
            if !record.cloud_prepared {
                record.prepared = prepared.cloned();
            }
            record.cloud_prepared = true;
            record.cluster.status.dns_ready = true;
            record.pass_checks(now);
            if record.deletion.is_none() {
                record.cluster.status.moments.cloud_prepared.get_or_insert(now);
                record.enter(ClusterState::Installing, "step 6: posting the manifests to Maestro", now);
            }
            Decision::Write
        });
        updated.await.map(drop)
    }

    /// Notes what the identities are known by that were put back, last of all: until then every look finds that they are others.
    /// Answers whether that is news, of which other manifests are made.
    async fn identities_changed(
        &self,
        id: &ClusterId,
        prepared: Option<&Prepared>,
    ) -> Result<bool, StoreError> {
        let Some(Prepared { client_ids, .. }) = prepared else { return Ok(false) };
        let mut news = false;
        let updated = self.records.cluster_update(id, |record| {
            let outdated = record.prepared.as_mut().filter(|known| known.client_ids != *client_ids);
            news = outdated.is_some();
            let Some(known) = outdated else { return Decision::Keep };
            known.client_ids.clone_from(client_ids);
            Decision::Write
        });
        updated.await?;
        if news {
            warn!(cluster = %id, "an identity had to be made again and is known by another id; its manifests follow");
        }
        Ok(news)
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
