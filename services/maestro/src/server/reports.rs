//! What agents send.
//!
//! Several statuses are dealt with at once, those of one bundle in order. Where every replica hears everything, each deals
//! with what is its own share.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_maestro_api::{Action, BundleStatus, CloudEvent, InvalidEvent, Subresource, extension};
use pilothouse_runtime::{Chain, Clock, OnExit, Policy, TaskError, Tasks, fault};
use pilothouse_store::{Conflict, DocumentId, Error as StoreError, Precondition};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::link::{Arrival, Declined, Happening};
use crate::sequence::SequenceId;
use crate::server::again::{About, Again, is_of_the_moment};
use crate::server::error::Refusal;
use crate::server::in_hand::InHand;
use crate::server::metrics::{Half, Metrics, Outcome};
use crate::server::records::{Records, Resource};
use crate::server::resync::{Answer, Resync, Round};
use crate::server::share::Share;
use crate::server::stored_event::StoredEvent;

/// How often a status is written against others who change the same bundle.
const ATTEMPTS: usize = 10;
/// Statuses that are dealt with at once.
const LANES: usize = 16;
/// Statuses that wait in one lane.
const WAITING: usize = 64;
/// How long nobody is asked again for what may have been left out: to be asked is work for every agent, and to be told for the
/// store, which was slow before.
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(60);
/// How long a question is remembered that could not be answered here: longer than it takes to miss another replica.
const REMEMBERED: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(super) struct Reports {
    pub(super) records: Records,
    pub(super) clock: Clock,
    pub(super) source_id: String,
    pub(super) metrics: Metrics,
    pub(super) resync: Resync,
    pub(super) again: Again,
    pub(super) tasks: Tasks,
    pub(super) share: Share,
    /// Every replica hears everything.
    pub(super) is_broadcast: bool,
    pub(super) outbox: pilothouse_runtime::reconcile::Handle<String>,
    pub(super) in_hand: InHand,
}

/// Questions that were other replicas' to answer, or of agents that cannot be told yet; the last of each consumer.
type Unanswered = HashMap<String, (Instant, CloudEvent)>;

impl Reports {
    /// Deals with what happens until there is nothing more to come.
    pub(super) async fn run(self, mut happenings: mpsc::Receiver<Happening>) {
        let shutdown = self.tasks.shutdown().clone();
        let lanes: Vec<_> = (0..LANES).map(|_| self.lane()).collect();
        self.tasks.spawn("left out", OnExit::StopProcess, self.clone().ask_for_what_was_left_out());
        let mut unanswered = Unanswered::new();
        let mut share = self.share.clone();
        loop {
            let happening = tokio::select! {
                () = shutdown.requested() => return,
                () = share.changed() => {
                    self.share_changed(&mut unanswered);
                    continue;
                }
                happening = happenings.recv() => happening,
            };
            match happening {
                None => return,
                Some(Happening::Connected) => {
                    self.outbox.wake_all();
                    self.ask_all();
                }
                // What waits for it can be sent. Of all that waits, the outbox goes through what it can send; however many
                // agents come while it does, it does so once more.
                Some(Happening::Joined(consumer)) => {
                    self.outbox.wake_all();
                    self.answer_one_that_has_come(&consumer, &mut unanswered);
                }
                Some(Happening::Arrived(arrival)) => self.arrived(*arrival, &lanes, &mut unanswered).await,
                Some(Happening::Refused) => self.metrics.report(Outcome::Unreadable),
            }
        }
    }

    /// A task for statuses. It ends when nobody sends it any.
    fn lane(&self) -> mpsc::Sender<Arrival> {
        let (arrivals_tx, mut arrivals) = mpsc::channel(WAITING);
        let reports = self.clone();
        self.tasks.spawn("report", OnExit::StopProcess, async move {
            while let Some(arrival) = arrivals.recv().await {
                reports.report(arrival).await;
            }
            Ok(())
        });
        arrivals_tx
    }

    /// Whenever that may be the case, until shutdown.
    async fn ask_for_what_was_left_out(self) -> Result<(), TaskError> {
        let shutdown = self.tasks.shutdown();
        loop {
            tokio::select! {
                () = shutdown.requested() => return Ok(()),
                () = self.in_hand.may_lack_some() => self.ask_all(),
            }
            tokio::select! {
                () = shutdown.requested() => return Ok(()),
                () = tokio::time::sleep(BETWEEN_QUESTIONS) => {}
            }
        }
    }

    /// Not in the caller's task: a full answer takes a while, and other agents would wait for it.
    fn resync<F>(&self, about: About, work: impl Fn(Resync) -> F + Send + 'static)
    where
        F: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        let (again, resync) = (self.again.clone(), self.resync.clone());
        self.tasks.spawn("resync", OnExit::LogError, async move {
            again.insist(about, move || work(resync.clone())).await
        });
    }

    fn ask_all(&self) {
        let round = Arc::new(Round::default());
        self.resync(About::Statuses, move |resync| {
            let round = round.clone();
            async move { resync.ask_all(&round).await }
        });
    }

    fn answer(&self, consumer: String, question: CloudEvent) {
        let mut hasher = DefaultHasher::new();
        question.data.hash(&mut hasher);
        let about = About::Question { consumer, words: hasher.finish() };
        let (question, answer) = (Arc::new(question), Arc::new(Answer::default()));
        self.resync(about, move |resync| {
            let (question, answer) = (question.clone(), answer.clone());
            async move { resync.answer(&question, &answer).await }
        });
    }

    fn take_back(&self, consumer: String, id: String, version: i32) {
        let about = About::Removal { consumer: consumer.clone(), id: id.clone() };
        self.resync(about, move |resync| {
            let (consumer, id) = (consumer.clone(), id.clone());
            async move { resync.take_back(&consumer, &id, version).await }
        });
    }

    /// An agent may have asked before it could be answered: it calls twice, once to ask and once to be told, and nothing says
    /// which of the two is heard first.
    fn answer_one_that_has_come(&self, consumer: &str, unanswered: &mut Unanswered) {
        let question = unanswered.remove(consumer).filter(|(at, _)| at.elapsed() < REMEMBERED);
        if let Some((_, question)) = question {
            self.answer(consumer.to_owned(), question);
        }
    }

    /// Some consumers may be this replica's from now on: what waits is sent, and what may have been missed is asked for.
    fn share_changed(&self, unanswered: &mut Unanswered) {
        self.outbox.wake_all();
        let ours = unanswered.extract_if(|consumer, _| self.share.has(consumer));
        for (consumer, (_, question)) in ours.filter(|(_, (at, _))| at.elapsed() < REMEMBERED) {
            self.answer(consumer, question);
        }
        if self.is_broadcast {
            self.ask_all();
        }
    }

    async fn arrived(&self, arrival: Arrival, lanes: &[mpsc::Sender<Arrival>], unanswered: &mut Unanswered) {
        let kind = match arrival.event.event_type() {
            Ok(kind) => kind,
            Err(error) => {
                self.metrics.report(Outcome::Unreadable);
                warn!(%error, "a status cannot be used");
                return arrival.decline(Declined::Invalid(error.to_string())).await;
            }
        };
        if !kind.is_ours() {
            return arrival.acknowledge().await;
        }
        let consumer = arrival.event.text(extension::CLUSTER_NAME).unwrap_or_default();
        let is_others = self.is_broadcast && !self.share.has(&consumer);
        match (kind.subresource, kind.action) {
            (Subresource::Spec, Action::ResyncRequest) => {
                self.metrics.received(Half::spec);
                let event = arrival.event.clone();
                // What cannot be answered yet is answered when it can be, unless it was too long ago.
                if is_others || !self.resync.link.reaches(&consumer) {
                    unanswered.retain(|_, (at, _)| at.elapsed() < REMEMBERED);
                    unanswered.insert(consumer, (Instant::now(), event));
                } else {
                    self.answer(consumer, event);
                }
                arrival.acknowledge().await;
            }
            (Subresource::Status, Action::Update | Action::ResyncResponse) if !is_others => {
                self.metrics.received(Half::status);
                let mut hasher = DefaultHasher::new();
                arrival.event.text(extension::RESOURCE_ID).hash(&mut hasher);
                let lane = usize::try_from(hasher.finish() % LANES as u64).unwrap_or_default();
                self.in_hand.add();
                // A lane ends only after this task.
                let _ = lanes[lane].send(arrival).await;
            }
            _ => {
                self.metrics.report(if is_others { Outcome::Others } else { Outcome::Unknown });
                arrival.acknowledge().await;
            }
        }
    }

    async fn report(&self, arrival: Arrival) {
        let begun = Instant::now();
        let is_answered = arrival.is_answered();
        let outcome = match is_answered {
            true => self.status(arrival.event.clone()).await,
            false => match self.status_in_the_end(&arrival.event).await {
                Some(outcome) => outcome,
                // It is not acknowledged, and whoever comes next asks for what was missed; it stays in hand, so that nobody is
                // asked on the way out.
                None => return,
            },
        };
        // Who hears what became of a status says it again himself.
        let held_up = if is_answered { Duration::ZERO } else { begun.elapsed() };
        match outcome {
            Ok(outcome) => {
                self.metrics.report(outcome);
                self.metrics.status_seconds.observe(begun.elapsed().as_secs_f64());
                arrival.acknowledge().await;
            }
            Err(Refusal::Store(error)) => {
                warn!(error = %Chain(&error), "could not store a status; the next resync brings it");
                arrival
                    .decline(Declined::NotNow("the status could not be stored; try again".to_owned()))
                    .await;
            }
            Err(error) => {
                self.metrics.report(Outcome::Unreadable);
                warn!(%error, "a status cannot be used");
                arrival.decline(Declined::Invalid(error.to_string())).await;
            }
        }
        self.in_hand.remove(held_up);
    }

    /// Deals with a status whose sender cannot be told that it should try again, and would not by itself: tries until the
    /// store takes it. Those behind it wait, and in the end the broker. `None` if shutdown comes first.
    async fn status_in_the_end(&self, event: &CloudEvent) -> Option<Result<Outcome, Refusal>> {
        let shutdown = self.tasks.shutdown();
        let mut delays = Policy::RECONNECT.delays();
        loop {
            match self.status(event.clone()).await {
                Err(error) if may_pass(&error) => {
                    warn!(error = %Chain(&error), "could not store a status; it is tried again");
                    self.metrics.put_off.inc();
                }
                outcome => return Some(outcome),
            }
            tokio::select! {
                () = shutdown.requested() => return None,
                () = tokio::time::sleep(delays.next().unwrap_or_default()) => {}
            }
        }
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
                    self.take_back(consumer, id, version);
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
            let mut stored = StoredEvent::try_new(&event)?;
            if let Some(metadata) = resource.payload.get(extension::METADATA) {
                stored.set(extension::METADATA, metadata.clone());
            }
            let is_first = resource.status.replace(stored).is_none();
            resource.updated_at = self.clock.now();
            let store = &self.records.store;
            let (container, partition) = (&self.records.resources, &self.records.partition);
            let document_id = DocumentId::try_new(&id)?;
            let precondition = Precondition::Etag(document.etag);
            fault::point("maestro-server.report.before");
            let put = self.records.write(&resource, precondition).await;
            fault::point("maestro-server.report.after");
            match put {
                Ok(_) if !is_deleted => {
                    if is_first {
                        let waited = resource.updated_at.duration_since(resource.created_at);
                        self.metrics.first_status_seconds.observe(waited.as_secs_f64());
                    }
                    return Ok(Outcome::Stored);
                }
                Ok(_) => {
                    // Two steps: whoever follows the bundle sees its last status before it is gone. Should the second be
                    // lost, the agent is asked again after its next connection, and answers the same.
                    fault::point("maestro-server.forget.before");
                    store.delete(container, partition, document_id, Precondition::Any).await?;
                    fault::point("maestro-server.forget.after");
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

/// Whether what came to nothing now may come about later. Dealing with a status twice does nothing.
fn may_pass(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Store(error) => is_of_the_moment(error),
        Refusal::Conflict(_) => true,
        _ => false,
    }
}

/// Whether a status says something that is not known: it is of the present version, and later than the last one.
fn is_news(resource: &Resource, event: &CloudEvent, version: i32) -> bool {
    if version != resource.version {
        return false;
    }
    let Some(known) = &resource.status else { return true };
    let known_version = match known.get(extension::RESOURCE_VERSION) {
        Some(serde_json::Value::String(text)) => text.parse().ok(),
        other => other.and_then(serde_json::Value::as_i64),
    };
    if known_version != Some(i64::from(version)) {
        return true;
    }
    let known = known.get(extension::SEQUENCE_ID).and_then(|id| SequenceId::parse(id.as_str()?));
    let new = event.text(extension::SEQUENCE_ID).as_deref().and_then(SequenceId::parse);
    match (known, new) {
        (Some(known), Some(new)) => new.is_newer_than(known) == Some(true),
        (Some(_), None) => false,
        (None, _) => true,
    }
}

#[cfg(test)]
mod tests;
