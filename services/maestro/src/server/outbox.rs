//! Sending what has to be sent.
//!
//! A controller over the notes. A pass reads note and bundle, sends the bundle, and removes the note if it is still the
//! same; so a bundle that changes while it is being sent is sent again. While there is no broker a pass does nothing, and
//! all of them are made when there is. What is another replica's is left to it.

use std::time::Duration;

use pilothouse_maestro_api::Action;
use pilothouse_runtime::{Clock, Next, OnExit, Reconcile, TaskError, Tasks, reconcile};
use pilothouse_store::{Change, Conflict, DocumentId, Error as StoreError, Precondition};
use tracing::{debug, info};

use crate::link::{Link, LinkError};
use crate::server::bundle;
use crate::server::metrics::{Half, Metrics};
use crate::server::records::{Note, NoteAction, Records};
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
        if let Some((_, resource)) = self.records.resource(id).await? {
            let action = match note.action {
                _ if resource.deleted_at.is_some() => Action::Delete,
                NoteAction::Create => Action::Create,
                NoteAction::Update | NoteAction::Delete => Action::Update,
            };
            let event = bundle::outgoing(&resource, &self.source_id, action, self.clock.now())?;
            let topic = topic::source_events(&self.source_id, &resource.consumer_name);
            match self.link.publish(topic, &event).await {
                Ok(()) => {}
                // Whoever reports the connection wakes all keys.
                Err(LinkError::Down) => {
                    debug!(resource = id, "waiting for the broker");
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
        match store.delete(&self.records.notes, &self.records.partition, note, precondition).await {
            // A newer note: its own pass follows.
            Ok(_) | Err(StoreError::Conflict(Conflict::Changed { .. } | Conflict::Missing { .. })) => {
                Ok(Next::Done)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Wakes the controller for every new note that is this replica's, whoever wrote it.
    pub(super) fn spawn_feed(self, tasks: &Tasks, controller: reconcile::Handle<String>) {
        let shutdown = tasks.shutdown().clone();
        tasks.spawn("outbox-feed", OnExit::StopProcess, async move {
            loop {
                let after = self.records.store.revision().await?;
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
                        Err(StoreError::Unavailable { .. }) => {
                            tokio::select! {
                                () = shutdown.requested() => return Ok(()),
                                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                            }
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
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
