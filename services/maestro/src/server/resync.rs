//! Making good what was missed while there was no connection.
//!
//! Each side asks when it connects. If the other is not there at that moment, the question is lost; so whoever is asked
//! asks back, once, and it does not matter who came first.

use std::collections::{BTreeMap, HashMap};

use futures::{StreamExt, TryStreamExt};
use pilothouse_maestro_api::{
    Action, CloudEvent, EventType, ResourceVersionList, StatusHash, StatusHashList, Subresource, extension,
};
use pilothouse_runtime::{Chain, Clock, TaskError};
use tokio::time::Instant;
use tracing::{debug, info};

use crate::link::{Link, LinkError};
use crate::server::bundle;
use crate::server::metrics::{Half, Metrics};
use crate::server::records::{ConsumerRecord, Records, Seen};
use crate::server::share::Share;
use crate::{status_hash, topic};

/// Hashes in one question.
const BATCH: usize = 1_000;
/// Messages on their way at once.
const CONCURRENCY: usize = 32;

#[derive(Clone, Debug)]
pub(super) struct Resync {
    pub(super) records: Records,
    pub(super) link: Link,
    pub(super) clock: Clock,
    pub(super) source_id: String,
    pub(super) share: Share,
    pub(super) metrics: Metrics,
}

impl Resync {
    /// Asks all agents of this replica's share for the statuses that are not known here.
    pub(super) async fn ask_all(&self) -> Result<(), TaskError> {
        let consumers: Vec<ConsumerRecord> = self.records.all(&self.records.consumers).await?;
        let mut known: BTreeMap<String, Vec<StatusHash>> =
            consumers.into_iter().map(|consumer| (consumer.name, Vec::new())).collect();
        let remember = |resource: Seen<'_>| {
            let status_hash = hash_of(&resource);
            let hashes = known.entry(resource.consumer_name).or_default();
            hashes.push(StatusHash { resource_id: resource.id, status_hash });
        };
        self.records.scan(None, remember).await?;
        for (consumer, hashes) in known.into_iter().filter(|(consumer, _)| self.share.has(consumer)) {
            match self.ask(&consumer, &hashes, false).await {
                Ok(()) => {}
                // The next connection asks again.
                Err(error) if error.is::<LinkError>() => {
                    debug!(consumer, error = %Chain(error.as_ref()), "could not ask for statuses");
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn ask(&self, consumer: &str, hashes: &[StatusHash], solicited: bool) -> Result<(), TaskError> {
        // One question even if nothing is known: it asks for everything.
        let batches: Vec<_> = if hashes.is_empty() { vec![hashes] } else { hashes.chunks(BATCH).collect() };
        for batch in batches {
            let kind = EventType::new(Subresource::Status, Action::ResyncRequest);
            let mut event = CloudEvent::new(&self.source_id, &kind, self.clock.now())
                .with(extension::CLUSTER_NAME, consumer)
                .with(extension::ORIGINAL_SOURCE, "")
                .with_data(serde_json::to_vec(&StatusHashList { status_hashes: batch.to_vec() })?);
            if solicited {
                event = event.with(extension::SOLICITED, "true");
            }
            self.link.publish(topic::source_events(&self.source_id, consumer), &event).await?;
            self.metrics.sent(Half::status);
        }
        debug!(consumer, "asked for statuses");
        Ok(())
    }

    /// Answers an agent that asks for the bundles it does not know.
    pub(super) async fn answer(&self, event: &CloudEvent) -> Result<(), TaskError> {
        let begun = Instant::now();
        let consumer = event.required(extension::CLUSTER_NAME)?;
        let asked: ResourceVersionList = event.payload()?;
        let mut known = Vec::new();
        let remember = |resource: Seen<'_>| known.push(Known::of(resource));
        self.records.scan(Some(("consumer", &consumer)), remember).await?;
        let missed = missing(&asked, &known);
        if !missed.is_empty() {
            info!(consumer, bundles = missed.len(), "sending what an agent has missed");
        }
        let sent = futures::stream::iter(missed)
            .map(|missed| self.send_missed(&consumer, missed))
            .buffer_unordered(CONCURRENCY)
            .try_for_each(|()| async { Ok(()) })
            .await;
        self.metrics.resync_seconds.observe(begun.elapsed().as_secs_f64());
        let asked = match sent {
            Ok(()) if known.is_empty() => return Ok(()),
            Ok(()) => {
                let hashes: Vec<_> = known.into_iter().map(|known| known.hash).collect();
                self.ask(&consumer, &hashes, true).await
            }
            Err(error) => Err(error),
        };
        match asked {
            // It asks again with its next connection, or has lost ours.
            Err(error) if error.is::<LinkError>() => {
                debug!(consumer, error = %Chain(error.as_ref()), "could not answer an agent");
                Ok(())
            }
            asked => asked,
        }
    }

    /// A bundle is read when its turn comes, so that no more of them are held than are on their way.
    async fn send_missed(&self, consumer: &str, missed: Missed) -> Result<(), TaskError> {
        let event = match missed {
            Missed::Removal(id, version) => self.removal(consumer, &id, version),
            Missed::Bundle(id) => {
                // One that has gone meanwhile is told by its last order.
                let Some((_, resource)) = self.records.resource(&id).await? else { return Ok(()) };
                bundle::outgoing(&resource, &self.source_id, Action::ResyncResponse, self.clock.now())?
            }
        };
        let sent = self.link.publish(topic::source_events(&self.source_id, consumer), &event).await;
        self.metrics.sent(Half::spec);
        match sent {
            // The outbox says so in its status; the others are not to wait for it.
            Err(LinkError::TooLarge { .. }) => Ok(()),
            sent => Ok(sent?),
        }
    }

    /// Tells an agent to remove a bundle that it looks after and that is not known here: an order for it came so late that the
    /// bundle had gone meanwhile.
    pub(super) async fn take_back(&self, consumer: &str, id: &str, version: i32) -> Result<(), TaskError> {
        // As above: rather too much stays than that a cluster is emptied.
        if self.records.count_of_consumer(consumer).await? == 0 {
            return Ok(());
        }
        // It may have been made in between.
        if self.records.resource(id).await?.is_some() {
            return Ok(());
        }
        info!(consumer, resource = id, "taking back a bundle that is not known");
        let event = self.removal(consumer, id, version);
        match self.link.publish(topic::source_events(&self.source_id, consumer), &event).await {
            Ok(()) => Ok(()),
            // It is told with its next connection.
            Err(error) => {
                debug!(consumer, error = %Chain(&error), "could not take a bundle back");
                Ok(())
            }
        }
    }

    /// The order to remove a bundle that is not known here.
    fn removal(&self, consumer: &str, id: &str, version: i32) -> CloudEvent {
        let kind = EventType::new(Subresource::Spec, Action::ResyncResponse);
        let now = self.clock.now();
        CloudEvent::new(&self.source_id, &kind, now)
            .with(extension::CLUSTER_NAME, consumer)
            .with(extension::ORIGINAL_SOURCE, "")
            .with(extension::RESOURCE_ID, id)
            .with(extension::RESOURCE_VERSION, version)
            .with(extension::DELETION_TIMESTAMP, now)
    }
}

/// What decides whether an agent has missed a bundle.
struct Known {
    /// With its id.
    hash: StatusHash,
    version: i32,
    is_deleted: bool,
}

/// Something that an agent has missed.
enum Missed {
    /// That it does not have as it is.
    Bundle(String),
    /// Of a bundle that is not known here.
    Removal(String, i32),
}

impl Known {
    fn of(resource: Seen<'_>) -> Self {
        let hash = StatusHash { status_hash: hash_of(&resource), resource_id: resource.id };
        Self { hash, version: resource.version, is_deleted: resource.deleted_at.is_some() }
    }
}

fn missing(asked: &ResourceVersionList, known: &[Known]) -> Vec<Missed> {
    // Nothing at all is known of this consumer: more likely it is a store that was lost than a cluster that should be
    // emptied.
    if known.is_empty() {
        return Vec::new();
    }
    let mut has: HashMap<_, _> = asked
        .resource_versions
        .iter()
        .map(|entry| (entry.resource_id.as_str(), entry.resource_version))
        .collect();
    let mut missed = Vec::new();
    for Known { hash, version, is_deleted } in known {
        let has = has.remove(hash.resource_id.as_str()).unwrap_or_default();
        if *is_deleted || *version == 0 || i64::from(*version) > has {
            missed.push(Missed::Bundle(hash.resource_id.clone()));
        }
    }
    let unknown = has
        .into_iter()
        .map(|(id, version)| Missed::Removal(id.to_owned(), i32::try_from(version).unwrap_or_default()));
    missed.extend(unknown);
    missed
}

/// The hash of the status that is known of a bundle.
pub(super) fn hash_of(resource: &Seen<'_>) -> String {
    let stored = resource.status.as_ref().and_then(|status| status.get("statushash")?.as_str());
    stored.unwrap_or(status_hash::EMPTY).to_owned()
}
