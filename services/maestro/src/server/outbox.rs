//! Sending what has to be sent.
//!
//! A controller over the notes. A pass reads note and bundle, sends the bundle, and removes the note if it is still the
//! same; so a bundle that changes while it is being sent is sent again. While there is no broker a pass does nothing, and
//! all of them are made when there is.

use pilothouse_maestro_api::Action;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use pilothouse_store::{Conflict, DocumentId, Error as StoreError, Precondition};
use tracing::{debug, info};

use crate::link::{Link, LinkError};
use crate::server::bundle;
use crate::server::metrics::Metrics;
use crate::server::records::{NoteAction, Records};
use crate::topic;

#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) records: Records,
    pub(super) link: Link,
    pub(super) clock: Clock,
    pub(super) source_id: String,
    pub(super) metrics: Metrics,
}

impl Reconcile for Outbox {
    type Key = String;

    async fn list(&self) -> Result<Vec<String>, TaskError> {
        Ok(self.records.noted().await?)
    }

    async fn reconcile(&self, id: &String) -> Result<Next, TaskError> {
        let Some((document, note)) = self.records.note(id).await? else { return Ok(Next::Done) };
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
            self.metrics.sent.inc();
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
}
