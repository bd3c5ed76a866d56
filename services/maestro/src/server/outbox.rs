//! Sending what has to be sent.
//!
//! A controller over the notes. A pass reads note and bundle, sends the bundle, and removes the note if it is still the
//! same; so a bundle that changes while it is being sent is sent again. While there is no broker a pass does nothing, and
//! all of them are made when there is. What is another replica's is left to it.

use std::time::Duration;

use pilothouse_crds::{Condition, ConditionStatus};
use pilothouse_maestro_api::{Action, BundleStatus, CloudEvent, EventType, Subresource, extension};
use pilothouse_runtime::{Clock, Next, OnExit, Reconcile, Shutdown, TaskError, Tasks, fault, reconcile};
use pilothouse_store::{Change, Conflict, Document, DocumentId, Error as StoreError, Precondition};
use tracing::{debug, info, warn};

use crate::link::{Link, LinkError};
use crate::server::bundle;
use crate::server::metrics::{Half, Metrics};
use crate::server::records::{Note, NoteAction, Records, Resource};
use crate::server::share::Share;
use crate::topic;

#[derive(Clone, Debug)]
pub(super) struct Outbox {
    pub(super) records: Records,
    pub(super) link: Link,
    pub(super) share: Share,
    pub(super) clock: Clock,
    pub(super) source_id: String,
    pub(super) metrics: Metrics,
}

impl Reconcile for Outbox {
    type Key = String;

    async fn list(&self) -> Result<Vec<String>, TaskError> {
        let noted = self.records.noted().await?;
        self.metrics.waiting.set(i64::try_from(noted.len()).unwrap_or(i64::MAX));
        Ok(noted.into_iter().filter(|(_, consumer)| self.sends_to(consumer)).map(|(id, _)| id).collect())
    }

    async fn reconcile(&self, id: &String) -> Result<Next, TaskError> {
        let outcome = self.send(id).await;
        self.metrics.reconciled(outcome.is_ok());
        outcome
    }
}

impl Outbox {
    /// Whether this replica is the one that sends to a consumer.
    fn sends_to(&self, consumer: &str) -> bool {
        // A note of a former version does not say; its bundle does.
        consumer.is_empty() || (self.share.has(consumer) && self.link.reaches(consumer))
    }

    async fn send(&self, id: &str) -> Result<Next, TaskError> {
        let Some((document, note)) = self.records.note(id).await? else { return Ok(Next::Done) };
        if !self.sends_to(&note.consumer) {
            return Ok(Next::Done);
        }
        if let Some((stored, resource)) = self.records.resource(id).await? {
            let action = match note.action {
                _ if resource.deleted_at.is_some() => Action::Delete,
                NoteAction::Create => Action::Create,
                NoteAction::Update | NoteAction::Delete => Action::Update,
            };
            let event = bundle::outgoing(&resource, &self.source_id, action, self.clock.now())?;
            let topic = topic::source_events(&self.source_id, &resource.consumer_name);
            fault::point("maestro-server.send.before");
            match self.link.publish(topic, &event).await {
                Ok(()) => fault::point("maestro-server.send.after"),
                // Whoever reports the connection wakes all keys.
                Err(LinkError::Down) => {
                    debug!(resource = id, "waiting for the broker");
                    return Ok(Next::Done);
                }
                // Taken before it was known what the broker takes. The note stays, and is tried with every connection.
                Err(error @ LinkError::TooLarge { .. }) => {
                    self.say_undeliverable(&stored, resource, &error).await?;
                    return Ok(Next::Done);
                }
                Err(error) => return Err(error.into()),
            }
            self.metrics.sent(Half::spec);
            info!(
                resource = id,
                consumer = resource.consumer_name,
                version = resource.version,
                "sent a bundle"
            );
        }
        let store = &self.records.store;
        let note = DocumentId::try_new(id)?;
        let precondition = Precondition::Etag(document.etag);
        fault::point("maestro-server.sent.before");
        let deleted = store.delete(&self.records.notes, &self.records.partition, note, precondition).await;
        fault::point("maestro-server.sent.after");
        match deleted {
            // A newer note: its own pass follows.
            Ok(_) | Err(StoreError::Conflict(Conflict::Changed { .. } | Conflict::Missing { .. })) => {
                Ok(Next::Done)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Has the status of a bundle say that it cannot be delivered, and why, where the agent would have said that it was
    /// applied.
    async fn say_undeliverable(
        &self,
        stored: &Document,
        mut resource: Resource,
        error: &LinkError,
    ) -> Result<(), TaskError> {
        const REASON: &str = "BundleTooLarge";
        let now = self.clock.now();
        let known = resource.status.as_ref().is_some_and(|status| {
            status["data"]["conditions"][0]["reason"] == REASON
                && status["resourceversion"] == resource.version
        });
        if known {
            return Ok(());
        }
        let message = format!("{error}; split it into several bundles");
        let condition = Condition::new("Applied", ConditionStatus::False, REASON, message, now)
            .of_generation(Some(i64::from(resource.version)));
        let status = BundleStatus { conditions: vec![condition], ..BundleStatus::default() };
        let kind = EventType::new(Subresource::Status, Action::Update);
        let event = CloudEvent::new(&self.source_id, &kind, now)
            .with(extension::CLUSTER_NAME, resource.consumer_name.as_str())
            .with(extension::ORIGINAL_SOURCE, self.source_id.as_str())
            .with(extension::RESOURCE_ID, resource.id.as_str())
            .with(extension::RESOURCE_VERSION, resource.version)
            .with_data(serde_json::to_vec(&status)?);
        warn!(resource = resource.id, consumer = resource.consumer_name, %error, "a bundle cannot be delivered");
        let mut status = event.to_json()?;
        if let Some(metadata) = resource.payload.get("metadata") {
            status["metadata"] = metadata.clone();
        }
        (resource.status, resource.updated_at) = (Some(status), now);
        let id = DocumentId::try_new(&resource.id)?;
        let (container, partition) = (&self.records.resources, &self.records.partition);
        let precondition = Precondition::Etag(stored.etag.clone());
        match self.records.store.put(container, partition, id, precondition, &resource).await {
            // It has changed: what is said of it now is the next pass's.
            Ok(_) | Err(StoreError::Conflict(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Wakes the controller for every new note that is this replica's, whoever wrote it.
    pub(super) fn spawn_feed(self, tasks: &Tasks, controller: reconcile::Handle<String>) {
        let shutdown = tasks.shutdown().clone();
        tasks.spawn("outbox-feed", OnExit::StopProcess, async move {
            while !shutdown.is_requested() {
                let after = match self.records.store.revision().await {
                    Ok(after) => after,
                    Err(error) if error.is_retryable() => {
                        wait_for_the_store(&shutdown).await;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                };
                let mut feed = self.records.store.container_feed(&self.records.notes, after)?;
                // What was there before is found by the list.
                controller.wake_all();
                loop {
                    let batch = tokio::select! {
                        () = shutdown.requested() => return Ok(()),
                        batch = feed.next() => batch,
                    };
                    match batch {
                        Ok(batch) => {
                            batch.changes.iter().for_each(|change| self.noticed(change, &controller));
                        }
                        Err(StoreError::TooOld { .. } | StoreError::NotYet { .. }) => break,
                        // Begun anew when it is back: what is noted is listed then.
                        Err(error) if error.is_retryable() => {
                            wait_for_the_store(&shutdown).await;
                            break;
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            Ok(())
        });
    }

    fn noticed(&self, change: &Change, controller: &reconcile::Handle<String>) {
        match (&change.before, &change.after) {
            (None, Some(_)) => drop(self.metrics.waiting.inc()),
            (Some(_), None) => drop(self.metrics.waiting.dec()),
            _ => {}
        }
        let Some(note) = &change.after else { return };
        // What cannot be read is found out by its pass.
        let is_ours = note.parse::<Note>().map_or(true, |note| self.sends_to(&note.consumer));
        if is_ours {
            controller.wake(change.id.as_str().to_owned());
        }
    }
}

async fn wait_for_the_store(shutdown: &Shutdown) {
    tokio::select! {
        () = shutdown.requested() => {}
        () = tokio::time::sleep(Duration::from_secs(1)) => {}
    }
}
