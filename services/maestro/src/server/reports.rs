//! What agents send.

use pilothouse_maestro_api::{Action, BundleStatus, CloudEvent, InvalidEvent, Subresource, extension};
use pilothouse_runtime::{Clock, OnExit, Tasks};
use pilothouse_store::{Conflict, DocumentId, Error as StoreError, Precondition};
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use crate::link::{Arrival, Happening};
use crate::sequence::SequenceId;
use crate::server::error::Refusal;
use crate::server::metrics::{Metrics, Outcome};
use crate::server::records::{Records, Resource};
use crate::server::resync::Resync;

/// How often a status is written against others who change the same bundle.
const ATTEMPTS: usize = 10;

#[derive(Clone, Debug)]
pub(super) struct Reports {
    pub(super) records: Records,
    pub(super) clock: Clock,
    pub(super) source_id: String,
    pub(super) metrics: Metrics,
    pub(super) resync: Resync,
    pub(super) tasks: Tasks,
    pub(super) outbox: pilothouse_runtime::reconcile::Handle<String>,
}

impl Reports {
    /// Deals with what happens, in order, until there is nothing more to come.
    pub(super) async fn run(self, mut happenings: mpsc::Receiver<Happening>) {
        let shutdown = self.tasks.shutdown().clone();
        loop {
            let happening = tokio::select! {
                () = shutdown.requested() => return,
                happening = happenings.recv() => happening,
            };
            match happening {
                None => return,
                Some(Happening::Connected) => {
                    self.outbox.wake_all();
                    let resync = self.resync.clone();
                    self.tasks.spawn("resync", OnExit::LogError, async move { resync.ask_all().await });
                }
                Some(Happening::Arrived(arrival)) => self.arrived(*arrival).await,
            }
        }
    }

    async fn arrived(&self, arrival: Arrival) {
        let event = arrival.event.clone();
        let outcome = match event.event_type() {
            Ok(kind) if !kind.is_ours() => return arrival.acknowledge().await,
            Ok(kind) => match (kind.subresource, kind.action) {
                (Subresource::Spec, Action::ResyncRequest) => {
                    self.metrics.resyncs.inc();
                    // Not in this task: a full answer takes a while, and other agents' statuses would wait for it.
                    let resync = self.resync.clone();
                    self.tasks.spawn("resync", OnExit::LogError, async move { resync.answer(&event).await });
                    return arrival.acknowledge().await;
                }
                (Subresource::Status, Action::Update | Action::ResyncResponse) => self.status(event).await,
                _ => Ok(Outcome::Unknown),
            },
            Err(error) => Err(error.into()),
        };
        match outcome {
            Ok(outcome) => self.metrics.report(outcome),
            Err(Refusal::Store(error)) => {
                warn!(error = %pilothouse_runtime::Chain(&error), "could not store a status; the next resync brings it");
            }
            Err(error) => {
                self.metrics.report(Outcome::Unreadable);
                warn!(%error, "a status cannot be used");
            }
        }
        arrival.acknowledge().await;
    }

    async fn status(&self, event: CloudEvent) -> Result<Outcome, Refusal> {
        let id = event.required(extension::RESOURCE_ID)?;
        let consumer = event.required(extension::CLUSTER_NAME)?;
        let version = event.resource_version()?.ok_or(InvalidEvent::Missing(extension::RESOURCE_VERSION))?;
        if event.text(extension::ORIGINAL_SOURCE).as_deref() != Some(&self.source_id) {
            return Ok(Outcome::Unknown);
        }
        let status: BundleStatus = event.payload()?;
        for attempt in 1.. {
            let Some((document, mut resource)) = self.records.resource(&id).await? else {
                debug!(resource = id, consumer, "a status of an unknown bundle");
                if !status.is_deleted() {
                    let resync = self.resync.clone();
                    let taking_back = async move { resync.take_back(&consumer, &id, version).await };
                    self.tasks.spawn("resync", OnExit::LogError, taking_back);
                }
                return Ok(Outcome::Unknown);
            };
            if resource.consumer_name != consumer {
                return Err(Refusal::Invalid(format!(
                    "`{consumer}` reports on a bundle of another consumer"
                )));
            }
            let is_deleted = status.is_deleted();
            if !is_deleted && !is_news(&resource, &event, version) {
                return Ok(Outcome::Stale);
            }
            let mut stored = event.to_json()?;
            if let Some(metadata) = resource.payload.get("metadata") {
                stored["metadata"] = metadata.clone();
            }
            resource.status = Some(stored);
            resource.updated_at = self.clock.now();
            let store = &self.records.store;
            let (container, partition) = (&self.records.resources, &self.records.partition);
            let document_id = DocumentId::try_new(&id)?;
            let precondition = Precondition::Etag(document.etag);
            match store.put(container, partition, document_id.clone(), precondition, &resource).await {
                Ok(_) if !is_deleted => return Ok(Outcome::Stored),
                Ok(_) => {
                    // Two steps: whoever follows the bundle sees its last status before it is gone. Should the second be
                    // lost, the agent is asked again after its next connection, and answers the same.
                    store.delete(container, partition, document_id, Precondition::Any).await?;
                    info!(resource = id, consumer, "a bundle is gone");
                    return Ok(Outcome::Deleted);
                }
                Err(StoreError::Conflict(Conflict::Changed { .. } | Conflict::Missing { .. }))
                    if attempt < ATTEMPTS => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Outcome::Stale)
    }
}

/// Whether a status says something that is not known: it is of the present version, and later than the last one.
fn is_news(resource: &Resource, event: &CloudEvent, version: i32) -> bool {
    if version != resource.version {
        return false;
    }
    let Some(known) = &resource.status else { return true };
    let known_version = match &known["resourceversion"] {
        serde_json::Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    };
    if known_version != Some(i64::from(version)) {
        return true;
    }
    let known = known["sequenceid"].as_str().and_then(SequenceId::parse);
    let new = event.text(extension::SEQUENCE_ID).as_deref().and_then(SequenceId::parse);
    match (known, new) {
        (Some(known), Some(new)) => new.is_newer_than(known) == Some(true),
        (Some(_), None) => false,
        (None, _) => true,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use pilothouse_maestro_api::EventType;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_later_statuses_of_the_present_version_are_news() {
        let mut resource = Resource {
            id: "r".into(),
            name: "r".into(),
            source: "cs".into(),
            consumer_name: "c1".into(),
            version: 2,
            cluster: None,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            deleted_at: None,
            payload: json!({}),
            status: None,
        };
        let event = |sequence: u64| {
            CloudEvent::new(
                "agent",
                &EventType::new(Subresource::Status, Action::Update),
                Timestamp::UNIX_EPOCH,
            )
            .with(extension::SEQUENCE_ID, (sequence << 22 | 1 << 12).to_string())
        };
        assert!(is_news(&resource, &event(1), 2), "the first one is");
        assert!(!is_news(&resource, &event(1), 1), "one of an older version is not");
        resource.status =
            Some(json!({"resourceversion": "2", "sequenceid": (5_u64 << 22 | 1 << 12).to_string()}));
        assert!(is_news(&resource, &event(6), 2));
        assert!(!is_news(&resource, &event(5), 2), "the same again is not");
        assert!(!is_news(&resource, &event(4), 2));
        resource.status =
            Some(json!({"resourceversion": 1, "sequenceid": (9_u64 << 22 | 1 << 12).to_string()}));
        assert!(is_news(&resource, &event(4), 2), "the first of a new version is");
    }
}
