//! One operation within a pass, and what all kinds of it have in common.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pilothouse_arm::{Failure, SubscriptionId};
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_http::Context;
use pilothouse_records::{Change, Error, Hold, Operation, Stored, Waiting};
use pilothouse_runtime::backoff::{Jitter, Policy};
use pilothouse_runtime::{Chain, fault};
use pilothouse_store::Lease;
use tracing::info;

use super::Operations;
use crate::error::PassError;
use crate::progress::{self, BACKEND, CLUSTERS_SERVICE, Observed, Phase};

/// How often Clusters Service is asked again by an operation that it did not answer.
const ASK_AGAIN: Policy = Policy::RECONCILE_ERROR;

/// The code of what failed because no management cluster has room.
const NO_CAPACITY: &str = "NoCapacity";

/// One operation within a pass.
pub(super) struct Work<'a> {
    pub(super) pass: &'a Operations,
    pub(super) lease: &'a Lease,
    pub(super) subscription: SubscriptionId,
    pub(super) context: Context,
    pub(super) operation: Stored<Operation>,
    /// As it was read.
    pub(super) before: Operation,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        pass: &'a Operations,
        lease: &'a Lease,
        subscription: SubscriptionId,
        context: Context,
        operation: Stored<Operation>,
    ) -> Self {
        let before = operation.record.clone();
        Self { pass, lease, subscription, context, operation, before }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.pass.clock.now()
    }

    pub(super) fn deadline(&self) -> Timestamp {
        self.pass.deadline(&self.operation)
    }

    /// Whether the operation is another than the one that was read.
    pub(super) fn is_changed(&self) -> bool {
        self.operation.record != self.before
    }

    /// A change with the operation in it, refused if the lease is somebody else's by now.
    pub(super) fn change(&self) -> Result<Change<'_>, Error> {
        let mut change = self.pass.records.change(self.subscription)?;
        change.fenced_by(self.lease);
        change.operation_replace(&self.operation)?;
        Ok(change)
    }

    /// Writes the operation alone, if it is another.
    pub(super) async fn write(&self) -> Result<(), PassError> {
        if self.is_changed() {
            self.change()?.commit().await?;
        }
        Ok(())
    }

    /// The cluster is on hold: says so, and asks nobody for anything.
    pub(super) async fn on_hold(&mut self, hold: &Hold) -> Result<(), PassError> {
        let reason = format!("the cluster was put on hold by {}: {}", hold.by, hold.reason);
        self.wait_for(reason);
        self.write().await
    }

    /// Waits for something that will be announced. Time spent so does not count.
    pub(super) fn wait_for(&mut self, reason: String) {
        let now = self.now();
        let since = match &self.operation.waiting {
            Some(waiting) if waiting.next_at.is_none() => waiting.since,
            _ => now,
        };
        self.operation.waiting = Some(Waiting { reason, since, attempts: 0, next_at: None });
    }

    /// How long it still has to be left alone, if its last attempt failed.
    pub(super) fn pause(&self) -> Option<Duration> {
        let next_at = self.operation.waiting.as_ref()?.next_at?;
        let pause = self.pass.clock.until(next_at.min(self.deadline()));
        (!pause.is_zero()).then_some(pause)
    }

    /// What it waited for has happened: from here on its time counts again, from the beginning.
    pub(super) fn resume(&mut self) {
        if self.operation.waiting.as_ref().is_some_and(|waiting| waiting.next_at.is_none()) {
            self.operation.waiting = None;
            self.operation.requeued_at = Some(self.now());
        }
    }

    /// Makes a call that changes something at Clusters Service. Before and after are where it hurts most to be killed.
    pub(super) async fn ask<T>(
        &self,
        call: impl Future<Output = Result<T, clusters_service::Error>>,
    ) -> Result<T, clusters_service::Error> {
        fault::point("clusters-service.ask.before");
        let answer = call.await;
        fault::point("clusters-service.ask.after");
        answer
    }

    /// The operation has nothing to work on any more.
    pub(super) async fn give_up(&mut self) -> Result<(), PassError> {
        let now = self.now();
        progress::superseded(&mut self.operation, now);
        self.write().await
    }

    /// Clusters Service could not be asked: says so on the operation, and when it will be tried again.
    pub(super) fn not_asked(&mut self, object: &str, source: &clusters_service::Error) {
        let message = format!("Clusters Service cannot be asked about {object}: {}", Chain(source));
        let remedy = "see that Clusters Service is up and reachable";
        self.try_later(4, BACKEND, object, message, remedy);
    }

    /// Clusters Service says something from which nothing follows: it is asked again later.
    pub(super) fn not_understood(&mut self, observed: &Observed) {
        let message = format!("Clusters Service says of {}: {}", observed.object, observed.description);
        let remedy = "see what keeps it in this state";
        self.try_later(12, CLUSTERS_SERVICE, &observed.object, message, remedy);
    }

    fn try_later(&mut self, step: u8, component: &str, object: &str, message: String, remedy: &str) {
        let now = self.now();
        if now >= self.deadline() {
            let failure = Failure {
                step,
                component: component.to_owned(),
                object: object.to_owned(),
                observed: message,
                remedy: format!("{remedy}, {}", progress::start_over(self.operation.request)),
            };
            return progress::fail(&mut self.operation, "DeadlineExceeded", failure, now);
        }
        let (attempts, since) = match &self.operation.waiting {
            Some(waiting) => (waiting.attempts.saturating_add(1), waiting.since),
            None => (1, now),
        };
        let delay = ASK_AGAIN.delay(attempts.saturating_sub(1), &mut Jitter::random());
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
        let next_at = now.saturating_add(delay).unwrap_or(Timestamp::MAX);
        info!(operation = %self.operation.id, attempts, %next_at, reason = message, "an operation waits");
        self.operation.step_again(step, component, message.clone(), now);
        self.operation.waiting = Some(Waiting { reason: message, since, attempts, next_at: Some(next_at) });
    }

    /// Clusters Service did not answer, or with a no. `known`: it has had the object before.
    pub(super) fn unanswered(&mut self, object: &str, error: &clusters_service::Error, known: bool) {
        if error.is_retryable() {
            self.not_asked(object, error);
        } else if known && error.is_not_found() {
            self.lost(object);
        } else {
            self.refused(object, error);
        }
    }

    /// Clusters Service has answered: nothing is waited for but what it says.
    pub(super) fn answered(&mut self, observed: &Observed) -> bool {
        if observed.phase == Phase::Unknown {
            self.not_understood(observed);
            return false;
        }
        self.operation.waiting = None;
        true
    }

    /// Clusters Service said no, which asking again does not change.
    fn refused(&mut self, object: &str, source: &clusters_service::Error) {
        let start_over = progress::start_over(self.operation.request);
        let (code, remedy) = match source.body() {
            Some(_) if source.is_out_of_capacity() => {
                (NO_CAPACITY, format!("wait until there is room in the region, {start_over}"))
            }
            Some(body) => (body.code.as_str(), format!("{start_over}, with what is accepted")),
            None => ("ClustersServiceRefused", format!("{start_over}, with what is accepted")),
        };
        let failure = Failure {
            step: 4,
            component: CLUSTERS_SERVICE.to_owned(),
            object: object.to_owned(),
            observed: Chain(source).to_string(),
            remedy,
        };
        let now = self.now();
        progress::fail(&mut self.operation, code, failure, now);
    }

    /// Clusters Service does not know what it made.
    pub(super) fn lost(&mut self, object: &str) {
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

    /// There is no cluster to do it to.
    pub(super) fn without_cluster(&mut self, object: &str) {
        let failure = Failure {
            step: 4,
            component: BACKEND.to_owned(),
            object: object.to_owned(),
            observed: "the cluster it belongs to was never made at Clusters Service".to_owned(),
            remedy: "delete the cluster and make it anew".to_owned(),
        };
        let now = self.now();
        progress::fail(&mut self.operation, "ClusterMissing", failure, now);
    }

    /// What Clusters Service was to be asked for cannot be read.
    pub(super) fn unreadable(&mut self, problem: impl Display) {
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
