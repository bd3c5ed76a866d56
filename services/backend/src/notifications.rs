//! Telling ARM of the end of an operation, at least once.
//!
//! Before anybody is told, the attempt is written down together with when the next one may be: of several backends one
//! wins, and one that dies on the way is followed by another when that time has come. What came of it is written down
//! afterwards. Addresses come from callers, so the client goes nowhere near this machine unless it is allowed to.

use std::fmt;
use std::io;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pilothouse_arm::{OperationId, SubscriptionId};
use pilothouse_http::{Client, ClientBuilder};
use pilothouse_pki::Bundle;
use pilothouse_records::{Error, Notification, Operation, Records, Stored};
use pilothouse_runtime::backoff::{Jitter, Policy};
use pilothouse_runtime::{Chain, Clock, Lane, Next, Reconcile, TaskError};
use tracing::{debug, info, warn};
use url::Url;

use crate::config;
use crate::error;
use crate::metrics::{Metrics, NotificationOutcome};

/// How often a peer that does not take it is tried.
const TELL_AGAIN: Policy = Policy::RECONCILE_ERROR;

/// Tells of the ends of operations.
#[derive(Debug)]
pub(crate) struct Notifications {
    pub(crate) records: Records,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) config: config::Notifications,
    pub(crate) client: Client,
}

/// An operation whose end is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    subscription: SubscriptionId,
    operation: OperationId,
}

impl Key {
    pub(crate) fn of(operation: &Operation) -> Option<Self> {
        let subscription = operation.resource.subscription_id().ok()?;
        Some(Self { subscription, operation: operation.id })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.subscription, self.operation)
    }
}

/// A client that goes only where callers may send it.
pub(crate) fn client(config: &config::Notifications) -> Result<Client, error::Error> {
    let mut builder = ClientBuilder::new(config.call_limit.0).https_only();
    builder = match &config.authorities {
        Some(file) => {
            let unreadable = |source| error::Error::Authorities { file: file.clone(), source };
            let pem = std::fs::read(file).map_err(unreadable)?;
            let bundle = Bundle::from_pem(&pem).map_err(|error| unreadable(io::Error::other(error)))?;
            builder.with_authorities(bundle)
        }
        None => builder.with_system_authorities(),
    };
    if !config.allow_private_addresses {
        builder = builder.public_addresses_only();
    }
    Ok(builder.build()?)
}

impl Reconcile for Notifications {
    type Key = Key;

    async fn list(&self) -> Result<Vec<Key>, TaskError> {
        let awaiting = self.records.operation_awaiting_notification().await?;
        Ok(awaiting.iter().filter_map(|operation| Key::of(operation)).collect())
    }

    /// Subscriptions take turns.
    fn lane(&self, key: &Key) -> Lane {
        let subscription = key.subscription.to_string().parse::<uuid::Uuid>();
        subscription.map_or(Lane::COMMON, |subscription| Lane::new(subscription.as_u128()))
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, TaskError> {
        match self.tell(key).await {
            Ok(next) => Ok(next),
            Err(Error::Conflict(conflict)) => {
                debug!(%key, %conflict, "somebody else wrote first");
                Ok(Next::After(TELL_AGAIN.first()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Notifications {
    async fn tell(&self, key: &Key) -> Result<Next, Error> {
        let Some(mut operation) = self.read(key).await? else { return Ok(Next::Done) };
        let now = self.clock.now();
        let Some(notification) = operation.notification.clone() else { return Ok(Next::Done) };
        if let Some(next_at) = notification.next_at.filter(|next_at| *next_at > now) {
            return Ok(Next::After(self.clock.until(next_at)));
        }
        if now >= after(operation.changed_at, self.config.give_up_after.0) {
            return self.give_up(key, operation, notification).await;
        }
        let attempts = notification.attempts.saturating_add(1);
        // Whoever dies now is followed by another once it can no longer be on its way.
        let claimed = after(now, self.config.call_limit.0 * 2);
        operation.notification =
            Some(Notification { attempts, next_at: Some(claimed), ..notification.clone() });
        self.write(key, &operation).await?;

        let outcome = self.post(&notification.uri, key, &operation).await;
        let Some(mut operation) = self.read(key).await? else { return Ok(Next::Done) };
        let now = self.clock.now();
        let delay = TELL_AGAIN.delay(attempts.saturating_sub(1), &mut Jitter::random());
        operation.notification = Some(match &outcome {
            Ok(()) => Notification {
                attempts,
                delivered_at: Some(now),
                last_error: None,
                next_at: None,
                ..notification
            },
            Err(error) => {
                let (last_error, next_at) = (Some(error.clone()), Some(after(now, delay)));
                Notification { attempts, last_error, next_at, ..notification }
            }
        });
        self.write(key, &operation).await?;
        match outcome {
            Ok(()) => {
                info!(operation = %key.operation, attempts, "told of the end of an operation");
                self.metrics.notified(NotificationOutcome::Delivered);
                Ok(Next::Done)
            }
            Err(error) => {
                info!(operation = %key.operation, attempts, error, "the end of an operation could not be told");
                self.metrics.notified(NotificationOutcome::Failed);
                Ok(Next::After(delay))
            }
        }
    }

    async fn give_up(
        &self,
        key: &Key,
        mut operation: Stored<Operation>,
        notification: Notification,
    ) -> Result<Next, Error> {
        let last_error = notification.last_error.clone();
        warn!(operation = %key.operation, error = last_error, "nobody could be told of the end of an operation");
        operation.notification = Some(Notification { given_up: true, next_at: None, ..notification });
        self.write(key, &operation).await?;
        self.metrics.notified(NotificationOutcome::GivenUp);
        Ok(Next::Done)
    }

    /// Any status below 400 counts.
    async fn post(&self, uri: &str, key: &Key, operation: &Operation) -> Result<(), String> {
        let url: Url = uri.parse().map_err(|error| format!("`{uri}` is not an address: {error}"))?;
        let status = operation.status(key.subscription);
        match self.client.post(url).json(&status).send().await {
            Ok(answer) if answer.status().as_u16() < 400 => Ok(()),
            Ok(answer) => Err(format!("it answered {}", answer.status())),
            Err(error) => Err(Chain(&error).to_string()),
        }
    }

    async fn read(&self, key: &Key) -> Result<Option<Stored<Operation>>, Error> {
        let found = self.records.operation_get(key.subscription, key.operation).await?;
        Ok(found.filter(|operation| operation.awaits_notification()))
    }

    async fn write(&self, key: &Key, operation: &Stored<Operation>) -> Result<(), Error> {
        let mut change = self.records.change(key.subscription)?;
        change.operation_replace(operation)?.commit().await?;
        Ok(())
    }
}

fn after(at: Timestamp, delay: Duration) -> Timestamp {
    let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
    at.saturating_add(delay).unwrap_or(Timestamp::MAX)
}
