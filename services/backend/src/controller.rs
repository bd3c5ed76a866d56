//! One pass over the operations on one cluster and its children.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pilothouse_arm::ResourceId;
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_http::Context;
use pilothouse_records::{Cluster, Error, NodePool, Operation, Records, Request, Stored, Waiting};
use pilothouse_runtime::{Clock, Lane, Next, Reconcile, TaskError};
use pilothouse_store::{Grant, Parts, Turn};
use tracing::{debug, info};

use self::work::Work;
use crate::config::Config;
use crate::error::PassError;
use crate::kind::Kind;
use crate::metrics::Metrics;

mod child;
mod cluster;
mod credential;
mod external_auth;
mod node_pool;
mod work;

/// Takes operations to their end.
#[derive(Debug)]
pub(crate) struct Operations {
    pub(crate) records: Records,
    pub(crate) clusters_service: clusters_service::Client,
    pub(crate) clock: Clock,
    pub(crate) leases: Arc<Parts>,
    pub(crate) metrics: Metrics,
    pub(crate) config: Config,
}

/// What somebody writes meanwhile is announced by the feed; this only repairs.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Reconcile for Operations {
    type Key = ResourceId;

    async fn list(&self) -> Result<Vec<ResourceId>, TaskError> {
        let active = self.records.operation_active().await?;
        let clusters: BTreeSet<_> = active.iter().map(|operation| operation.cluster()).collect();
        Ok(clusters.into_iter().collect())
    }

    /// Subscriptions take turns.
    fn lane(&self, cluster: &ResourceId) -> Lane {
        let subscription = cluster.subscription_name().parse::<uuid::Uuid>();
        subscription.map_or(Lane::COMMON, |subscription| Lane::new(subscription.as_u128()))
    }

    async fn reconcile(&self, cluster: &ResourceId) -> Result<Next, TaskError> {
        let key = cluster.key();
        let token = self.leases.token(&key).await;
        let mut operations = self.records.operation_active_on(cluster).await?;
        if operations.is_empty() {
            self.leases.leave(&key).await;
            return Ok(Next::Done);
        }
        let grant = match self.leases.hold(&key).await.map_err(PassError::Lease)? {
            Turn::Ours(grant) => grant,
            Turn::Theirs(remaining) => {
                debug!(%cluster, ?remaining, "another backend works on it");
                return Ok(Next::After(remaining));
            }
        };
        if token != Some(grant.lease().token()) {
            // What was read before the part was ours, its last holder may have done since: it would be asked for twice.
            operations = self.records.operation_active_on(cluster).await?;
        }
        let next = tokio::select! {
            biased;
            () = grant.clone().lost() => {
                info!(%cluster, "the part of the work was lost; stopping where it is");
                return Ok(Next::After(LOOK_AGAIN));
            }
            next = self.advance_all(cluster, &grant, operations) => next?,
        };
        if next == Next::Done {
            self.leases.leave(&key).await;
        }
        Ok(next)
    }
}

impl Operations {
    async fn advance_all(
        &self,
        cluster: &ResourceId,
        grant: &Grant,
        operations: Vec<Stored<Operation>>,
    ) -> Result<Next, PassError> {
        let mut soonest: Option<Duration> = None;
        let mut failed = None;
        for operation in operations {
            match Box::pin(self.advance(grant, operation)).await {
                Ok(None) => {}
                Ok(Some(wait)) => soonest = Some(soonest.map_or(wait, |soonest| soonest.min(wait))),
                Err(PassError::Records(Error::Conflict(conflict))) => {
                    debug!(%cluster, %conflict, "somebody else wrote first");
                    soonest = Some(LOOK_AGAIN);
                }
                // The others may still get on.
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(soonest.map_or(Next::Done, Next::After)),
        }
    }

    /// Takes one operation as far as it goes now. The answer is when to look again at the latest; `None` once it has
    /// ended, or if something has to happen first that will be announced.
    async fn advance(
        &self,
        grant: &Grant,
        operation: Stored<Operation>,
    ) -> Result<Option<Duration>, PassError> {
        let Ok(subscription) = operation.resource.subscription_id() else { return Ok(None) };
        let context =
            Context::new(self.config.call_limit.0).with_correlation_id(operation.correlation_id.clone());
        let mut work = Work::new(self, grant.lease(), subscription, context, operation);
        let cluster = self.records.cluster_get(&work.operation.cluster()).await?;
        if let Some(hold) = cluster.as_ref().and_then(|cluster| cluster.hold.as_ref()) {
            work.on_hold(hold).await?;
            return Ok(None);
        }
        if let Some(pause) = work.pause() {
            return Ok(Some(pause));
        }
        Box::pin(self.dispatch(&mut work, cluster)).await?;
        let Work { operation, before, .. } = work;
        if operation.state != before.state {
            info!(
                operation = %operation.id,
                resource = %operation.resource,
                correlation = operation.correlation_id,
                from = %before.state,
                to = %operation.state,
                error = operation.error.as_ref().map(tracing::field::display),
                "an operation changed its state"
            );
        }
        if operation.state.is_terminal() {
            self.metrics.ended(&operation);
            return Ok(None);
        }
        let retry = match &operation.waiting {
            // What it waits for is announced, and meanwhile its time does not count.
            Some(Waiting { next_at: None, .. }) => return Ok(None),
            Some(Waiting { next_at, .. }) => *next_at,
            None => None,
        };
        let deadline = self.clock.until(self.deadline(&operation));
        let next = retry.map_or(deadline, |next_at| deadline.min(self.clock.until(next_at)));
        Ok(Some(next.max(LOOK_AGAIN)))
    }

    async fn dispatch(&self, work: &mut Work<'_>, cluster: Option<Stored<Cluster>>) -> Result<(), PassError> {
        let kind = Kind::of(&work.operation.resource);
        if kind == Kind::Cluster {
            work.resume();
        }
        match (work.operation.request, kind) {
            (Request::RequestCredential, _) => work.credential_request(cluster).await,
            (Request::RevokeCredentials, _) => work.credentials_revoke(cluster).await,
            (_, Kind::Cluster) => Box::pin(work.cluster(cluster)).await,
            (_, Kind::NodePool) => work.child::<NodePool>(cluster).await,
            (_, Kind::ExternalAuth) => work.child::<pilothouse_records::ExternalAuth>(cluster).await,
        }
    }

    /// By when an operation has to be done.
    fn deadline(&self, operation: &Operation) -> Timestamp {
        let limit = self.config.deadlines.of(Kind::of(&operation.resource), operation.request);
        let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
        let begun = operation.requeued_at.unwrap_or(operation.started_at);
        begun.saturating_add(limit).unwrap_or(Timestamp::MAX)
    }
}
