//! Sending what has to be sent.
//!
//! A controller over the notes. A pass reads note and bundle, unless they were just [accepted](super::accepted) here, sends the bundle, and removes the note if it is still the
//! same; so a bundle that changes while it is being sent is sent again. While there is no broker a pass does nothing, and
//! all of them are made when there is. What is another replica's is left to it.

use std::time::Duration;

use pilothouse_crds::{Condition, ConditionStatus};
use pilothouse_maestro_api::{Action, BundleStatus, CloudEvent, EventType, Subresource, extension};
use pilothouse_runtime::{Clock, Next, OnExit, Reconcile, Shutdown, TaskError, Tasks, fault, reconcile};
use pilothouse_store::{Change, Conflict, Document, DocumentId, Error as StoreError, Etag, Precondition};
use tracing::{debug, info, warn};

use crate::link::{Link, LinkError};
use crate::server::accepted::Accepted;
use crate::server::bundle;
use crate::server::metrics::{Half, Metrics};
use crate::server::records::{Note, NoteAction, Records, Resource};
use crate::server::share::Share;
use crate::server::stored_event::StoredEvent;
use crate::topic;

#[derive(Clone, Debug)]
pub(super) struct Outbox {
    pub(super) records: Records,
    pub(super) link: Link,
    pub(super) share: Share,
    pub(super) clock: Clock,
    pub(super) source_id: String,
    pub(super) metrics: Metrics,
    pub(super) accepted: Accepted,
}

/// What became of an attempt to send.
enum Sent {
    Yes,
    /// Whoever reports the connection wakes all keys.
    NotNow,
    /// Taken before it was known what the broker takes.
    TooLarge(LinkError),
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
        if let Some(order) = self.accepted.take(id).await.filter(|order| self.sends_to(&order.consumer)) {
            match self.publish(id, &order.consumer, order.version, &order.event).await? {
                Sent::Yes if self.cross_off(id, order.note).await? => return Ok(Next::Done),
                Sent::NotNow => return Ok(Next::Done),
                // It has changed since it was handed over, or something has to be said about it.
                Sent::Yes | Sent::TooLarge(_) => {}
            }
        }
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
            match self.publish(id, &resource.consumer_name, resource.version, &event).await? {
                Sent::Yes => {}
                Sent::NotNow => return Ok(Next::Done),
                // The note stays, and is tried with every connection.
                Sent::TooLarge(error) => {
                    self.say_undeliverable(&stored, resource, &error).await?;
                    return Ok(Next::Done);
                }
            }
        }
        // If there is a newer note, its own pass follows.
        self.cross_off(id, document.etag).await?;
        Ok(Next::Done)
    }

    async fn publish(
        &self,
        id: &str,
        consumer: &str,
        version: i32,
        event: &CloudEvent,
    ) -> Result<Sent, TaskError> {
        let topic = topic::source_events(&self.source_id, consumer);
        fault::point("maestro-server.send.before");
        match self.link.publish(topic, event).await {
            Ok(()) => fault::point("maestro-server.send.after"),
            Err(LinkError::Down) => {
                debug!(resource = id, "waiting for the broker");
                return Ok(Sent::NotNow);
            }
            Err(error @ LinkError::TooLarge { .. }) => return Ok(Sent::TooLarge(error)),
            Err(error) => return Err(error.into()),
        }
        self.metrics.sent(Half::spec);
        info!(resource = id, consumer, version, "sent a bundle");
        Ok(Sent::Yes)
    }

    /// Removes a note, and says whether there is none any more.
    async fn cross_off(&self, id: &str, note: Etag) -> Result<bool, TaskError> {
        let Records { store, notes, partition, .. } = &self.records;
        fault::point("maestro-server.sent.before");
        let deleted =
            store.delete(notes, partition, DocumentId::try_new(id)?, Precondition::Etag(note)).await;
        fault::point("maestro-server.sent.after");
        match deleted {
            Ok(_) | Err(StoreError::Conflict(Conflict::Missing { .. })) => Ok(true),
            Err(StoreError::Conflict(Conflict::Changed { .. })) => Ok(false),
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
        let known = resource.status.as_ref().filter(|status| {
            status.get(extension::RESOURCE_VERSION).is_some_and(|version| *version == resource.version)
        });
        let known: BundleStatus = known.map(StoredEvent::payload).transpose()?.unwrap_or_default();
        if known.conditions.first().is_some_and(|condition| condition.reason == REASON) {
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
        let mut status = StoredEvent::try_new(&event)?;
        if let Some(metadata) = resource.payload.get(extension::METADATA) {
            status.set(extension::METADATA, metadata.clone());
        }
        (resource.status, resource.updated_at) = (Some(status), now);
        match self.records.write(&resource, Precondition::Etag(stored.etag.clone())).await {
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
        } else {
            self.accepted.discard(change.id.as_str());
        }
    }
}

async fn wait_for_the_store(shutdown: &Shutdown) {
    tokio::select! {
        () = shutdown.requested() => {}
        () = tokio::time::sleep(Duration::from_secs(1)) => {}
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use pilothouse_store::{Keyring, Location, Options, Store};
    use prometheus_client::registry::Registry;
    use serde_json::json;

    use super::*;
    use crate::server::accepted::Order;

    async fn records() -> Records {
        let catalog = crate::server::records::catalog();
        let options = Options {
            keyring: Some(Keyring::ephemeral().unwrap()),
            ..Options::new(Location::memory(), catalog, Shutdown::new())
        };
        Records::try_new(Store::open(options).await.unwrap()).unwrap()
    }

    fn resource(version: i32) -> Resource {
        let payload = json!({"specversion": "1.0", "id": "1", "source": "cs", "type": "t", "clustername": "c1",
            "data": {"manifests": [version]}});
        Resource {
            id: "r".into(),
            name: "r".into(),
            source: "cs".into(),
            consumer_name: "c1".into(),
            version,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            deleted_at: None,
            payload: payload.into(),
            status: None,
        }
    }

    /// Both have woken the outbox, and it makes one pass for both.
    #[tokio::test]
    async fn bundle_that_another_replica_changed_since_it_was_accepted_is_sent_as_it_is_now() {
        let records = records().await;
        let (link, agents, _happenings) = Link::to_agents();
        let outbox = Outbox {
            records: records.clone(),
            link,
            share: Share::All,
            clock: Clock::system(),
            source_id: "maestro".into(),
            metrics: Metrics::register(&mut Registry::default()),
            accepted: Accepted::default(),
        };
        let mut seat = agents.join("c1".into()).await;
        let mut notes = Vec::new();
        for (version, action) in [(1, NoteAction::Create), (2, NoteAction::Update)] {
            let mut transaction = records.transaction();
            records.put_resource(&mut transaction, &resource(version), Precondition::Any, action).unwrap();
            notes.extend(records.store.commit(&transaction).await.unwrap().etag().cloned());
        }
        let event = bundle::outgoing(&resource(1), "maestro", Action::Create, Timestamp::UNIX_EPOCH).unwrap();
        let order = Order { note: notes[0].clone(), consumer: "c1".into(), version: 1, event };
        outbox.accepted.put("r", order);

        assert_eq!(outbox.send("r").await.unwrap(), Next::Done);
        let mut sent = Vec::new();
        while let Ok(event) = seat.queue.try_recv() {
            sent.push(event.resource_version().unwrap().unwrap());
        }
        assert_eq!(sent, [1, 2]);
        assert_eq!(records.noted().await.unwrap(), []);

        // What was handed over is all that is needed of what has not changed.
        let order = |note| Order {
            note,
            consumer: "c1".into(),
            version: 2,
            event: bundle::outgoing(&resource(2), "maestro", Action::Update, Timestamp::UNIX_EPOCH).unwrap(),
        };
        let mut transaction = records.transaction();
        let id = DocumentId::try_new("r").unwrap();
        let note = Note { action: NoteAction::Update, consumer: "c1".into() };
        transaction.put(&records.notes, id, Precondition::Any, &note).unwrap();
        let committed = records.store.commit(&transaction).await.unwrap();
        outbox.accepted.put("r", order(committed.etag().unwrap().clone()));
        outbox.send("r").await.unwrap();
        assert_eq!(seat.queue.try_recv().unwrap().resource_version().unwrap(), Some(2));
        assert!(seat.queue.try_recv().is_err(), "it is sent once");
        assert_eq!(records.noted().await.unwrap(), []);
    }
}
