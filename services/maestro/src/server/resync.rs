//! Making good what was missed while there was no connection.
//!
//! Each side asks when it connects. If the other is not there at that moment, the question is lost; so whoever is asked
//! asks back, once, and it does not matter who came first.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{iter, mem};

use futures::{StreamExt, stream};
use pilothouse_maestro_api::{
    Action, CloudEvent, EventType, ResourceVersionList, StatusHash, StatusHashList, Subresource, extension,
};
use pilothouse_runtime::{Chain, Clock, TaskError};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{debug, info, warn};

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

/// Who is asked for statuses, with the hashes of those that are known.
type Asked = BTreeMap<String, Vec<StatusHash>>;

/// Once asking everybody, in as many attempts as it takes.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Who has not been asked yet; `None` before that is known.
    left: Mutex<Option<Asked>>,
}

/// Once answering an agent, in as many attempts as it takes: what it was told in one, it is not told again in the next.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// What it has not been told yet; `None` before that is known.
    left: Mutex<Option<Owed>>,
}

/// What an agent is told that has asked.
#[derive(Debug)]
struct Owed {
    missed: Vec<Missed>,
    /// With the answer it is asked for statuses that are not known here; these are.
    known: Vec<StatusHash>,
}

impl Resync {
    /// Asks all agents of this replica's share for the statuses that are not known here; in a further attempt, those that the
    /// broker has not acknowledged the question for.
    pub(super) async fn ask_all(&self, round: &Round) -> Result<(), TaskError> {
        let mut left = round.left.lock().await;
        let asked = match left.take() {
            Some(asked) => asked,
            None => self.everybody().await?,
        };
        let (mut again, mut problem) = (Asked::new(), None);
        let asked = asked.into_iter().filter(|(consumer, _)| self.share.has(consumer));
        let asking = stream::iter(asked).map(async |(consumer, hashes)| {
            let outcome = self.ask(&consumer, &hashes, false).await;
            (consumer, hashes, outcome)
        });
        let mut asking = pin!(asking.buffer_unordered(CONCURRENCY));
        while let Some((consumer, hashes, outcome)) = asking.next().await {
            let Err(error) = outcome else { continue };
            match *error.downcast::<LinkError>()? {
                // The next connection asks again.
                LinkError::Down => return Ok(()),
                // The connection may well stand, so that no other asks. The others are not to wait for it.
                error @ LinkError::Unacknowledged { .. } => {
                    again.insert(consumer, hashes);
                    problem = Some(error);
                }
                // One that the broker takes nothing for is no reason not to ask the others.
                error => warn!(consumer, error = %Chain(&error), "could not ask for statuses"),
            }
        }
        let Some(problem) = problem else { return Ok(()) };
        *left = Some(again);
        Err(problem.into())
    }

    async fn everybody(&self) -> Result<Asked, TaskError> {
        let consumers: Vec<ConsumerRecord> = self.records.all(&self.records.consumers).await?;
        let mut known: Asked = consumers.into_iter().map(|consumer| (consumer.name, Vec::new())).collect();
        let remember = |resource: Seen<'_>| {
            let status_hash = hash_of(&resource);
            let hashes = known.entry(resource.consumer_name).or_default();
            hashes.push(StatusHash { resource_id: resource.id, status_hash });
        };
        self.records.scan(None, remember).await?;
        Ok(known)
    }

    async fn ask(&self, consumer: &str, hashes: &[StatusHash], solicited: bool) -> Result<(), TaskError> {
        // One question even if nothing is known: it asks for everything.
        let mut parts: Vec<_> = if hashes.is_empty() { vec![hashes] } else { hashes.chunks(BATCH).collect() };
        while let Some(part) = parts.pop() {
            let event = self.question(consumer, part, solicited)?;
            match self.link.publish(topic::source_events(&self.source_id, consumer), &event).await {
                Ok(()) => self.metrics.sent(Half::status),
                // Some brokers take small packets only. What is not in a part is not asked for by it.
                Err(LinkError::TooLarge { .. }) if part.len() > 1 => {
                    let (one, other) = part.split_at(part.len() / 2);
                    parts.extend([other, one]);
                }
                Err(error) => return Err(error.into()),
            }
        }
        debug!(consumer, "asked for statuses");
        Ok(())
    }

    fn question(
        &self,
        consumer: &str,
        hashes: &[StatusHash],
        solicited: bool,
    ) -> Result<CloudEvent, serde_json::Error> {
        let kind = EventType::new(Subresource::Status, Action::ResyncRequest);
        let event = CloudEvent::new(&self.source_id, &kind, self.clock.now())
            .with(extension::CLUSTER_NAME, consumer)
            .with(extension::ORIGINAL_SOURCE, "")
            .with_data(serde_json::to_vec(&StatusHashList { status_hashes: hashes.to_vec() })?);
        Ok(if solicited { event.with(extension::SOLICITED, "true") } else { event })
    }

    /// Answers an agent that asks for the bundles it does not know.
    pub(super) async fn answer(&self, event: &CloudEvent, answer: &Answer) -> Result<(), TaskError> {
        let begun = Instant::now();
        let consumer = event.required(extension::CLUSTER_NAME)?;
        let mut left = answer.left.lock().await;
        let mut owed = match left.take() {
            Some(owed) => owed,
            None => self.owed(&consumer, &event.payload()?).await?,
        };
        let told = self.tell(&consumer, &mut owed).await;
        self.metrics.resync_seconds.observe(begun.elapsed().as_secs_f64());
        match told {
            // It asks again with its next connection, or is asked to with ours.
            Err(error) if matches!(error.downcast_ref(), Some(LinkError::Down)) => {
                debug!(consumer, "could not answer an agent");
                Ok(())
            }
            // It would the next time, too. Should it ever be otherwise, the agent's next question covers it.
            Err(error) if matches!(error.downcast_ref(), Some(LinkError::Refused { .. })) => {
                warn!(consumer, error = %Chain(error.as_ref()), "could not ask for statuses");
                Ok(())
            }
            Err(error) => {
                *left = Some(owed);
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    async fn owed(&self, consumer: &str, asked: &ResourceVersionList) -> Result<Owed, TaskError> {
        let mut known = Vec::new();
        let remember = |resource: Seen<'_>| known.push(Known::of(resource));
        self.records.scan(Some(("consumer", consumer)), remember).await?;
        let missed = missing(asked, &known);
        if !missed.is_empty() {
            info!(consumer, bundles = missed.len(), "sending what an agent has missed");
        }
        Ok(Owed { missed, known: known.into_iter().map(|known| known.hash).collect() })
    }

    /// Tells an agent as much as can be told now. What is owed afterwards is what could not.
    async fn tell(&self, consumer: &str, owed: &mut Owed) -> Result<(), TaskError> {
        let (has_failed, mut problem) = (AtomicBool::new(false), None);
        let mut rest = mem::take(&mut owed.missed).into_iter();
        let next = iter::from_fn(|| if has_failed.load(Ordering::Relaxed) { None } else { rest.next() });
        let sending = stream::iter(next).map(async |missed| {
            let outcome = self.send_missed(consumer, &missed).await;
            (missed, outcome)
        });
        {
            let mut sending = pin!(sending.buffer_unordered(CONCURRENCY));
            while let Some((missed, outcome)) = sending.next().await {
                if let Err(error) = outcome {
                    has_failed.store(true, Ordering::Relaxed);
                    owed.missed.push(missed);
                    problem.get_or_insert(error);
                }
            }
        }
        owed.missed.extend(rest);
        match problem {
            Some(problem) => Err(problem),
            None if owed.known.is_empty() => Ok(()),
            None => self.ask(consumer, &owed.known, true).await,
        }
    }

    /// A bundle is read when its turn comes, so that no more of them are held than are on their way. That the broker does not
    /// want one keeps no other back.
    async fn send_missed(&self, consumer: &str, missed: &Missed) -> Result<(), TaskError> {
        let event = match missed {
            Missed::Removal(id, version) => self.removal(consumer, id, *version),
            Missed::Bundle(id) => {
                // One that has gone meanwhile is told by its last order.
                let Some((_, resource)) = self.records.resource(id).await? else { return Ok(()) };
                bundle::outgoing(&resource, &self.source_id, Action::ResyncResponse, self.clock.now())?
            }
        };
        let sent = self.link.publish(topic::source_events(&self.source_id, consumer), &event).await;
        self.metrics.sent(Half::spec);
        match sent {
            // The outbox says so in its status.
            Ok(()) | Err(LinkError::TooLarge { .. }) => Ok(()),
            // As above.
            Err(error @ LinkError::Refused { .. }) => {
                warn!(consumer, error = %Chain(&error), "could not send what an agent has missed");
                Ok(())
            }
            Err(error) => Err(error.into()),
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
            // Where there is no connection, it is told with the next.
            Ok(()) | Err(LinkError::Down) => Ok(()),
            Err(error) => Err(error.into()),
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
#[derive(Debug)]
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
