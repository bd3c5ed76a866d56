//! What wakes the controller: the store, when somebody asked for something, and Maestro, when something was observed.
//!
//! Either way an event wakes only the cluster it concerns and carries nothing but its id; the pass looks for itself. What
//! was missed while a connection was down is made up for by waking every cluster once it stands again, and every one that is
//! gone and has manifests at Maestro all the same ([`look_for_strays`]).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use pilothouse_clusters_service_api::ClusterId;
use pilothouse_maestro_api::{Error as MaestroError, RestClient, SourceClient, StatusEvent, Subscription};
use pilothouse_runtime::reconcile::Handle;
use pilothouse_runtime::{Chain, Policy, Shutdown, TaskError};
use pilothouse_store::{Batch, Error as StoreError, Feed, Revision};
use tracing::{debug, info, warn};

use crate::lanes::Lanes;
use crate::manifests::{CLUSTER_ID_LABEL, SHARD_LABEL};
use crate::metrics::Metrics;
use crate::record::ClusterRecord;
use crate::records::{Entry, Records};

/// Whether Maestro's news arrive at present.
pub(crate) type Connected = Arc<AtomicBool>;

/// Who is woken by Maestro.
#[derive(Clone, Debug)]
pub(crate) struct Sleepers {
    pub(crate) clusters: Handle<ClusterId>,
    pub(crate) shards: Handle<String>,
}

/// Reads what happens to the records, and keeps count of clusters by it.
pub(crate) struct Follower {
    records: Records,
    feed: Feed,
    metrics: Metrics,
    /// Whether everything is counted that was there before what the feed brings next.
    counted: bool,
}

/// Follows the store until shutdown.
pub(crate) async fn follow_store(
    mut follower: Follower,
    (handle, lanes): (Handle<ClusterId>, Lanes),
    shutdown: Shutdown,
) -> Result<(), TaskError> {
    let mut delays = Policy::RECONNECT.delays();
    loop {
        let batch = tokio::select! {
            batch = follower.next() => batch,
            () = shutdown.requested() => return Ok(()),
        };
        match batch {
            Ok(Some(batch)) => {
                delays.reset();
                for change in &batch.changes {
                    let entry = Entry::of(change)?;
                    if let Some(Entry::Cluster { before, after }) = &entry {
                        follower.count(before.as_deref(), after.as_deref());
                        after.iter().for_each(|after| lanes.note(&after.cluster));
                    }
                    if is_lost_or_back(entry.as_ref()) {
                        // Its clusters say so; it is too rare to be worth an index of them.
                        handle.wake_all();
                    } else if let Some(id) = asks_for_work(entry) {
                        handle.wake(id);
                    }
                }
            }
            Ok(None) => handle.wake_all(),
            Err(error) => {
                warn!(error = %Chain(&error), "cannot follow the store, trying again");
                wait(delays.next(), &shutdown).await;
            }
        }
    }
}

impl Follower {
    /// From a revision on.
    pub(crate) fn new(records: Records, after: Revision, metrics: Metrics) -> Self {
        let feed = records.feed(after);
        Self { records, feed, metrics, counted: false }
    }

    /// The next changes; none if some were missed, and are not known any more.
    async fn next(&mut self) -> Result<Option<Batch>, StoreError> {
        match self.read().await {
            Err(StoreError::TooOld { .. } | StoreError::NotYet { .. }) => {
                self.feed = self.records.feed(self.records.revision().await?);
                self.counted = false;
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// What is there is counted as of where the feed stands: so what that brings is neither left out nor counted twice.
    async fn read(&mut self) -> Result<Batch, StoreError> {
        if !self.counted {
            let there = self.records.cluster_states_at(self.feed.revision()).await?;
            self.metrics.count_all(there.into_iter());
            self.counted = true;
        }
        self.feed.next().await
    }

    fn count(&self, before: Option<&ClusterRecord>, after: Option<&ClusterRecord>) {
        let [before, after] = [before, after].map(|record| record.map(|record| record.cluster.state));
        if before != after {
            self.metrics.count_change(before, after);
        }
    }
}

/// The cluster that an entry asks something of. What the controller itself writes asks for nothing.
fn asks_for_work(entry: Option<Entry>) -> Option<ClusterId> {
    match entry? {
        Entry::Cluster { before, after: Some(after) } => {
            let asks = before.is_none_or(|before| after.asks_for_work(&before));
            asks.then_some(after.cluster.id)
        }
        Entry::NodePool { before, after: Some(after) } => {
            let asks = before.is_none_or(|before| after.asks_for_work(&before));
            asks.then_some(after.node_pool.cluster_id)
        }
        Entry::Credential { before, after: Some(after) } => {
            let asks = before.is_none_or(|before| after.asks_for_work(&before));
            asks.then_some(after.credential.cluster_id)
        }
        Entry::Cluster { after: None, .. }
        | Entry::NodePool { after: None, .. }
        | Entry::Credential { after: None, .. }
        | Entry::Shard { .. } => None,
    }
}

/// Whether something else can be expected of a management cluster than before.
fn is_lost_or_back(entry: Option<&Entry>) -> bool {
    match entry {
        Some(Entry::Shard { before: Some(before), after: Some(after) }) => {
            before.out_of_reach() != after.out_of_reach()
        }
        _ => false,
    }
}

/// Follows Maestro until shutdown: subscribes, and subscribes again whenever that breaks.
pub(crate) async fn follow_maestro(
    (source, maestro): (SourceClient, RestClient),
    records: Records,
    sleepers: Sleepers,
    connected: Connected,
    metrics: Metrics,
    shutdown: Shutdown,
) -> Result<(), TaskError> {
    let mut delays = Policy::RECONNECT.delays();
    while !shutdown.is_requested() {
        let subscription = tokio::select! {
            subscription = source.subscribe() => subscription,
            () = shutdown.requested() => return Ok(()),
        };
        let ended = match subscription {
            Ok(subscription) => {
                delays.reset();
                info!("subscribed to Maestro");
                connected.store(true, Ordering::Relaxed);
                // Only now: whatever changed before the subscription stood is found by looking.
                sleepers.clusters.wake_all();
                sleepers.shards.wake_all();
                let ended = tokio::select! {
                    ended = read(subscription, &sleepers, &metrics, &shutdown) => ended,
                    never = look_for_strays(&maestro, &records, &sleepers.clusters) => match never {},
                };
                connected.store(false, Ordering::Relaxed);
                ended
            }
            Err(error) => Some(error),
        };
        if let Some(error) = ended {
            warn!(error = %Chain(&error), "no subscription to Maestro, trying again");
        }
        wait(delays.next(), &shutdown).await;
    }
    Ok(())
}

/// Wakes, once, whatever was deleted here and has manifests at Maestro all the same: a request that Maestro took while nobody
/// here was listening. Its status may have come and gone as well.
async fn look_for_strays(
    maestro: &RestClient,
    records: &Records,
    clusters: &Handle<ClusterId>,
) -> std::convert::Infallible {
    let mut delays = Policy::RECONNECT.delays();
    loop {
        match strays(maestro, records).await {
            Ok(strays) => {
                for id in strays {
                    info!(cluster = %id, "Maestro has manifests of a cluster that is gone; looking");
                    clusters.wake(id);
                }
                return std::future::pending().await;
            }
            Err(error) => {
                warn!(error = %Chain(error.as_ref()), "cannot look for manifests of clusters that are gone, trying again");
                tokio::time::sleep(delays.next().unwrap_or_default()).await;
            }
        }
    }
}

async fn strays(maestro: &RestClient, records: &Records) -> Result<Vec<ClusterId>, TaskError> {
    // In this order: whatever is made in between has a record before it has manifests.
    let marked = maestro.resource_bundle_labels(CLUSTER_ID_LABEL).await?;
    let (known, _) = records.cluster_list(None).await?;
    let known: HashSet<_> = known.into_iter().map(|record| record.cluster.id).collect();
    let marked = marked.iter().filter_map(|id| id.parse().ok());
    let (mut strays, mut unknown) = (Vec::new(), Vec::new());
    for id in marked.filter(|id| !known.contains(id)) {
        if records.cluster_is_gone(&id).await? { strays.push(id) } else { unknown.push(id) }
    }
    if let Some(example) = unknown.first() {
        warn!(
            clusters = unknown.len(),
            %example,
            "Maestro has manifests of clusters that were never deleted here, and have no record; they are left alone: see whether \
             the database is this region's and whole"
        );
    }
    Ok(strays)
}

async fn read(
    mut subscription: Subscription,
    sleepers: &Sleepers,
    metrics: &Metrics,
    shutdown: &Shutdown,
) -> Option<MaestroError> {
    loop {
        let event = tokio::select! {
            event = subscription.next() => event?,
            () = shutdown.requested() => return None,
        };
        match event {
            Ok(event) => {
                metrics.status_events.inc();
                if let Some(id) = cluster_of(&event) {
                    sleepers.clusters.wake(id);
                } else if let Some(id) = label(&event, SHARD_LABEL) {
                    sleepers.shards.wake(id.to_owned());
                } else {
                    debug!(bundle = event.resource_id, "a status of a bundle that is none of ours");
                }
            }
            // One event that makes no sense is not the end of the stream.
            Err(MaestroError::Event(error)) => warn!(error = %Chain(&error), "a status could not be read"),
            Err(error) => return Some(error),
        }
    }
}

fn cluster_of(event: &StatusEvent) -> Option<ClusterId> {
    label(event, CLUSTER_ID_LABEL)?.parse().ok()
}

fn label<'a>(event: &'a StatusEvent, name: &str) -> Option<&'a str> {
    event.metadata.as_ref()?["labels"][name].as_str()
}

async fn wait(delay: Option<std::time::Duration>, shutdown: &Shutdown) {
    tokio::select! {
        () = tokio::time::sleep(delay.unwrap_or_default()) => {}
        () = shutdown.requested() => {}
    }
}
