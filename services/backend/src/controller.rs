//! One pass over the operations on one cluster and its node pools.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pilothouse_arm::{Failure, ResourceId, SubscriptionId};
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_http::Context;
use pilothouse_records::{Change, Error, Operation, Records, Request, Stored};
use pilothouse_runtime::{Chain, Clock, Next, Reconcile, TaskError};
use pilothouse_store::Lease;
use tracing::{debug, info};

use crate::config::Config;
use crate::error::PassError;
use crate::leases::{Leases, Turn};
use crate::metrics::Metrics;
use crate::progress::{self, BACKEND, CLUSTERS_SERVICE};

mod cluster;
mod node_pool;

/// Takes operations to their end.
#[derive(Debug)]
pub(crate) struct Operations {
    pub(crate) records: Records,
    pub(crate) clusters_service: clusters_service::Client,
    pub(crate) clock: Clock,
    pub(crate) leases: Arc<Leases>,
    pub(crate) metrics: Metrics,
    pub(crate) config: Config,
}

/// One operation within a pass.
struct Work<'a> {
    pass: &'a Operations,
    lease: &'a Lease,
    subscription: SubscriptionId,
    context: Context,
    operation: Stored<Operation>,
    /// As it was read.
    before: Operation,
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

    async fn reconcile(&self, cluster: &ResourceId) -> Result<Next, TaskError> {
        let operations = self.records.operation_active_on(cluster).await?;
        if operations.is_empty() {
            self.leases.leave(cluster).await;
            return Ok(Next::Done);
        }
        let lease = match self.leases.hold(cluster).await.map_err(PassError::Lease)? {
            Turn::Ours(lease) => lease,
            Turn::Theirs(remaining) => {
                debug!(%cluster, ?remaining, "another backend works on it");
                return Ok(Next::After(remaining));
            }
        };
        let mut soonest: Option<Duration> = None;
        let mut failed = None;
        for operation in operations {
            match self.advance(&lease, operation).await {
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
        if let Some(error) = failed {
            return Err(error.into());
        }
        match soonest {
            Some(wait) => Ok(Next::After(wait)),
            None => {
                self.leases.leave(cluster).await;
                Ok(Next::Done)
            }
        }
    }
}

impl Operations {
    /// Takes one operation as far as it goes now. The answer is when to look again at the latest; `None` once it has
    /// ended.
    async fn advance(
        &self,
        lease: &Lease,
        operation: Stored<Operation>,
    ) -> Result<Option<Duration>, PassError> {
        let Ok(subscription) = operation.resource.subscription_id() else { return Ok(None) };
        let context =
            Context::new(self.config.call_limit.0).with_correlation_id(operation.correlation_id.clone());
        let before = operation.record.clone();
        let mut work = Work { pass: self, lease, subscription, context, operation, before };
        if work.operation.cluster() == work.operation.resource {
            work.cluster().await?;
        } else {
            work.node_pool().await?;
        }
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
        Ok(Some(self.clock.until(self.deadline(&operation)).max(LOOK_AGAIN)))
    }

    /// By when an operation has to be done.
    fn deadline(&self, operation: &Operation) -> Timestamp {
        let limit = match operation.request {
            Request::Create | Request::Update => self.config.create_deadline.0,
            Request::Delete => self.config.delete_deadline.0,
        };
        let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
        operation.started_at.saturating_add(limit).unwrap_or(Timestamp::MAX)
    }
}

impl Work<'_> {
    fn now(&self) -> Timestamp {
        self.pass.clock.now()
    }

    fn deadline(&self) -> Timestamp {
        self.pass.deadline(&self.operation)
    }

    /// Whether the operation is another than the one that was read.
    fn is_changed(&self) -> bool {
        self.operation.record != self.before
    }

    /// A change with the operation in it, refused if the lease is somebody else's by now.
    fn change(&self) -> Result<Change<'_>, Error> {
        let mut change = self.pass.records.change(self.subscription)?;
        change.fenced_by(self.lease);
        change.operation_replace(&self.operation)?;
        Ok(change)
    }

    /// The operation has nothing to work on any more.
    async fn give_up(&mut self) -> Result<(), PassError> {
        let now = self.now();
        progress::superseded(&mut self.operation, now);
        Ok(self.change()?.commit().await?)
    }

    /// Clusters Service could not be asked: says so on the operation, and lets the next pass try.
    async fn not_asked(&mut self, object: String, source: clusters_service::Error) -> Result<(), PassError> {
        let now = self.now();
        let message =
            format!("Clusters Service cannot be asked about {object}; trying again: {}", Chain(&source));
        self.operation.step_begin(4, BACKEND, message.clone(), now);
        if now >= self.deadline() {
            let failure = Failure {
                step: 4,
                component: BACKEND.to_owned(),
                object: object.clone(),
                observed: message,
                remedy: format!(
                    "see that Clusters Service is up and reachable, {}",
                    progress::start_over(self.operation.request)
                ),
            };
            progress::fail(&mut self.operation, "DeadlineExceeded", failure, now);
        }
        if self.is_changed() && !self.operation.state.is_terminal() {
            self.change()?.commit().await?;
            self.before = self.operation.record.clone();
        }
        if self.operation.state.is_terminal() {
            return Ok(());
        }
        Err(PassError::ClustersService { object, source })
    }

    /// Clusters Service said no, which asking again does not change.
    fn refused(&mut self, object: &str, source: &clusters_service::Error) {
        let failure = Failure {
            step: 4,
            component: CLUSTERS_SERVICE.to_owned(),
            object: object.to_owned(),
            observed: Chain(source).to_string(),
            remedy: format!("{}, with what is accepted", progress::start_over(self.operation.request)),
        };
        let code = source.body().map_or("ClustersServiceRefused", |body| body.code.as_str());
        let now = self.now();
        progress::fail(&mut self.operation, code, failure, now);
    }

    /// Clusters Service does not know what it made.
    fn lost(&mut self, object: &str) {
        let failure = Failure {
            step: 12,
            component: CLUSTERS_SERVICE.to_owned(),
            object: object.to_owned(),
            observed: "Clusters Service does not know it any more".to_owned(),
            remedy: "delete the resource and make it anew".to_owned(),
        };
        let now = self.now();
        progress::fail(&mut self.operation, "ResourceLost", failure, now);
    }

    /// What Clusters Service was to be asked for cannot be read.
    fn unreadable(&mut self, problem: &str) {
        let failure = Failure {
            step: 4,
            component: BACKEND.to_owned(),
            object: self.operation.resource.to_string(),
            observed: format!("the stored request to Clusters Service cannot be read: {problem}"),
            remedy: progress::start_over(self.operation.request).to_owned(),
        };
        let now = self.now();
        progress::fail(&mut self.operation, "RequestUnreadable", failure, now);
    }
}
