//! What sources are told.
//!
//! A subscription follows the store: every change of a status is an event, whichever replica wrote it, and nothing has to
//! be queued for a source that is slow. If one is so slow that the store no longer has what it has not read, the
//! subscription ends, and the source subscribes and asks anew.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::Stream;
use pilothouse_maestro_api::{BundleStatus, CloudEvent, InvalidEvent, StatusHashList, extension, proto};
use pilothouse_runtime::Shutdown;
use pilothouse_store::{Change, Feed};
use prometheus_client::metrics::gauge::Gauge;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tracing::{info, warn};
use uuid::Uuid;

use crate::server::error::Refusal;
use crate::server::grpc::heartbeat;
use crate::server::metrics::Metrics;
use crate::server::records::{Records, Resource, Seen};
use crate::server::resync::hash_of;

/// Bundles that were asked for and not yet sent on one subscription.
const ASKED: usize = 1_024;
/// How long a subscriber may take to make room for what it asked for.
const PATIENCE: Duration = Duration::from_secs(30);

/// All subscriptions of this replica. A cheap handle.
#[derive(Clone, Debug)]
pub(super) struct Subscriptions {
    pub(super) records: Records,
    pub(super) metrics: Metrics,
    pub(super) shutdown: Shutdown,
    pub(super) heartbeat: Duration,
    pub(super) standing: Arc<Mutex<HashMap<Uuid, Standing>>>,
}

#[derive(Debug)]
pub(super) struct Standing {
    source: String,
    /// Ids of bundles whose status was asked for.
    asked: mpsc::Sender<String>,
}

struct Subscription {
    id: Uuid,
    source: String,
    owner: Subscriptions,
    feed: Feed,
    asked: mpsc::Receiver<String>,
    ready: std::collections::VecDeque<CloudEvent>,
    heartbeat: tokio::time::Interval,
    gauge: Gauge,
}

// === impl Subscriptions ===

impl Subscriptions {
    /// Subscribes a source. Everything that happens after this returns is in the stream.
    pub(super) async fn open(
        &self,
        source: String,
    ) -> Result<(Uuid, impl Stream<Item = Result<proto::CloudEvent, tonic::Status>> + Send + use<>), Refusal>
    {
        let after = self.records.store.revision().await?;
        let feed = self.records.store.container_feed(&self.records.resources, after)?;
        let id = Uuid::new_v4();
        let (asked_tx, asked) = mpsc::channel(ASKED);
        self.lock().insert(id, Standing { source: source.clone(), asked: asked_tx });
        let gauge = self.metrics.subscriptions.clone();
        gauge.inc();
        info!(source, subscription = %id, "a source subscribed");
        let subscription = Subscription {
            id,
            source,
            owner: self.clone(),
            feed,
            asked,
            ready: Default::default(),
            heartbeat: tokio::time::interval(self.heartbeat),
            gauge,
        };
        let stream = futures::stream::unfold(Some(subscription), |subscription| async {
            let mut subscription = subscription?;
            match subscription.next().await {
                Ok(Some(event)) => Some((Ok(event.into()), Some(subscription))),
                Ok(None) => None,
                Err(error) => {
                    warn!(source = subscription.source, %error, "a subscription ended");
                    let status =
                        tonic::Status::unavailable("the subscription is too far behind; subscribe again");
                    Some((Err(status), None))
                }
            }
        });
        Ok((id, stream))
    }

    /// Sends, over the subscriptions of a source, the statuses it does not know.
    pub(super) async fn resync(&self, event: &CloudEvent) -> Result<(), Refusal> {
        let known: StatusHashList =
            if event.data.is_empty() { Default::default() } else { event.payload()? };
        let known: HashMap<_, _> =
            known.status_hashes.into_iter().map(|entry| (entry.resource_id, entry.status_hash)).collect();
        let mut wanted = Vec::new();
        let compare = |resource: Seen<'_>| {
            let differs =
                known.is_empty() || known.get(&resource.id).is_some_and(|known| *known != hash_of(&resource));
            if resource.status.is_some() && differs {
                wanted.push(resource.id);
            }
        };
        self.records.scan(Some(("source", &event.source)), compare).await?;
        let subscribers: Vec<_> = {
            let standing = self.lock();
            let ours = standing.values().filter(|standing| standing.source == event.source);
            ours.map(|standing| standing.asked.clone()).collect()
        };
        for id in wanted {
            for subscriber in &subscribers {
                // One that is gone, or does not read, asks again.
                let _ = subscriber.send_timeout(id.clone(), PATIENCE).await;
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Standing>> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Subscription ===

impl Subscription {
    async fn next(&mut self) -> Result<Option<CloudEvent>, Refusal> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            tokio::select! {
                () = self.owner.shutdown.requested() => return Ok(None),
                _ = self.heartbeat.tick() => return Ok(Some(heartbeat())),
                batch = self.feed.next() => {
                    for change in batch?.changes {
                        if let Some(event) = told(&change, &self.source)? {
                            self.ready.push_back(event);
                        }
                    }
                }
                Some(id) = self.asked.recv() => {
                    if let Some((_, resource)) = self.owner.records.resource(&id).await? {
                        self.ready.extend(status_event(&resource)?);
                    }
                }
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.owner.lock().remove(&self.id);
        self.gauge.dec();
        info!(source = self.source, subscription = %self.id, "a subscription is over");
    }
}

/// The event for a source, if a change is one of a status of its bundles.
///
/// The last status of a bundle, that it is deleted, is told when the bundle is gone and not before: whoever hears it and
/// looks must not find it still there, since there is nothing further to hear.
fn told(change: &Change, source: &str) -> Result<Option<CloudEvent>, Refusal> {
    let parse = |document: &pilothouse_store::Document| document.parse::<Resource>();
    let before = change.before.as_ref().map(parse).transpose()?;
    let after = change.after.as_ref().map(parse).transpose()?;
    match (before, after) {
        (Some(gone), None) if gone.source == source && is_last_status(&gone)? => status_event(&gone),
        (_, None) => Ok(None),
        (before, Some(after)) => {
            let known = before.is_some_and(|before| before.status == after.status);
            if after.source != source || known || is_last_status(&after)? {
                return Ok(None);
            }
            status_event(&after)
        }
    }
}

/// Whether the agent has said that everything is removed.
fn is_last_status(resource: &Resource) -> Result<bool, Refusal> {
    let Some(status) = &resource.status else { return Ok(false) };
    Ok(status.payload::<BundleStatus>()?.is_deleted())
}

/// The stored status, with the bundle it is about.
fn status_event(resource: &Resource) -> Result<Option<CloudEvent>, Refusal> {
    let Some(status) = &resource.status else { return Ok(None) };
    let mut event = status.to_event()?;
    let mut data: BTreeMap<String, &RawValue> = match status.data() {
        Some(data) => serde_json::from_str(data.get()).map_err(InvalidEvent::Json)?,
        None => BTreeMap::new(),
    };
    if let Some(bundle) = resource.payload.data() {
        data.insert("manifestBundle".to_owned(), bundle);
    }
    event.data = serde_json::to_vec(&data).map_err(InvalidEvent::Json)?.into();
    if let Some(version) = event.resource_version()? {
        event = event.with(extension::RESOURCE_VERSION, version);
    }
    if let Some(id) = resource.payload.get(extension::CORRELATION_ID).and_then(Value::as_str) {
        event = event.with(extension::CORRELATION_ID, id);
    }
    Ok(Some(event))
}
