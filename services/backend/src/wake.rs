//! What wakes the controllers.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use pilothouse_arm::ResourceId;
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{Change, ClusterId, Cursor};
use pilothouse_records::{Followed, HoldFeed, Holds, OperationFeed, Records};
use pilothouse_runtime::backoff::Delays;
use pilothouse_runtime::reconcile::Handle;
use pilothouse_runtime::{Chain, Policy, TaskError};
use tracing::{debug, info, warn};

use crate::active::Active;
use crate::metrics::Metrics;
use crate::notifications::Key;

/// Wakes for every operation that is made, changed or ended.
pub(crate) async fn follow_operations(
    mut feed: OperationFeed,
    active: Arc<Active>,
    operations: Handle<ResourceId>,
    notifications: Handle<Key>,
) -> Result<(), TaskError> {
    let mut delays = Policy::RECONNECT.delays();
    // Everything there is has to be counted before what changes it.
    let mut behind = true;
    loop {
        let followed = if behind {
            feed.active().await.map(|all| {
                active.replace(&all);
                behind = false;
            })
        } else {
            feed.next().await.map(|followed| match followed {
                Followed::Changed(changed) => {
                    for operation in &changed {
                        active.note(operation);
                        // What else is under way on the cluster may have waited for the end of this.
                        if !operation.state.is_terminal() || active.is_on(&operation.cluster()) {
                            operations.wake(operation.cluster());
                        }
                        if operation.awaits_notification() {
                            Key::of(operation).into_iter().for_each(|key| notifications.wake(key));
                        }
                    }
                }
                Followed::Missed => {
                    behind = true;
                    active.invalidate();
                    operations.wake_all();
                    notifications.wake_all();
                }
            })
        };
        match followed {
            Ok(()) => delays = Policy::RECONNECT.delays(),
            Err(error) => {
                let delay = delays.next().unwrap_or_default();
                warn!(error = %Chain(&error), ?delay, "operations cannot be followed for a moment");
                tokio::time::sleep(delay).await;
            }
        }
    }
}

/// Wakes for every cluster that is put on hold or released.
pub(crate) async fn follow_holds(
    mut feed: HoldFeed,
    operations: Handle<ResourceId>,
) -> Result<(), TaskError> {
    let mut delays = Policy::RECONNECT.delays();
    loop {
        match feed.next().await {
            Ok(Holds::Changed(clusters)) => {
                delays = Policy::RECONNECT.delays();
                clusters.into_iter().for_each(|cluster| operations.wake(cluster));
            }
            Ok(Holds::Missed) => operations.wake_all(),
            Err(error) => {
                let delay = delays.next().unwrap_or_default();
                warn!(error = %Chain(&error), ?delay, "holds cannot be followed for a moment");
                tokio::time::sleep(delay).await;
            }
        }
    }
}

/// Wakes for everything that Clusters Service says of clusters that are being worked on.
pub(crate) struct Watch {
    pub(crate) client: clusters_service::Client,
    pub(crate) records: Records,
    pub(crate) handle: Handle<ResourceId>,
    pub(crate) active: Arc<Active>,
    pub(crate) connected: Arc<AtomicBool>,
    pub(crate) metrics: Metrics,
}

impl Watch {
    /// Follows for ever. Begins with everything there is, and after a lost connection where it stood.
    pub(crate) async fn run(self) -> Result<(), TaskError> {
        let mut cursor: Option<Cursor> = None;
        let mut delays = Policy::RECONNECT.delays();
        loop {
            match self.follow(&mut cursor, &mut delays).await {
                Ok(()) => debug!("the watch of Clusters Service ended; beginning anew"),
                Err(error) if error.is_gone() => cursor = None,
                Err(error) => {
                    // The first of a series is worth a line, the others are the same.
                    if self.connected.load(Ordering::Relaxed) || cursor.is_none() {
                        info!(error = %Chain(&error), "Clusters Service cannot be followed for a moment");
                    }
                }
            }
            self.set_connected(false);
            tokio::time::sleep(delays.next().unwrap_or_default()).await;
        }
    }

    async fn follow(
        &self,
        cursor: &mut Option<Cursor>,
        delays: &mut Delays,
    ) -> Result<(), clusters_service::Error> {
        let mut events = pin!(self.client.watch(cursor.as_ref()).await?);
        // However it ends: whoever could be reached is knocked at as if for the first time.
        delays.reset();
        self.set_connected(true);
        while let Some(event) = events.next().await {
            let event = event?;
            match &event.change {
                Change::Cluster(cluster) => match cluster.azure.resource_id().parse() {
                    Ok(id) => self.wake(id),
                    Err(error) => debug!(%error, "a cluster stands for no resource"),
                },
                _ => {
                    if let Some(id) = event.cluster_id() {
                        self.wake_by_id(id).await;
                    }
                }
            }
            if event.cursor.is_some() {
                *cursor = event.cursor;
            }
        }
        Ok(())
    }

    async fn wake_by_id(&self, id: &ClusterId) {
        if self.active.is_empty() {
            return;
        }
        match self.records.cluster_by_clusters_service_id(id.as_str()).await {
            Ok(Some(cluster)) => self.wake(cluster.resource.id.clone()),
            Ok(None) => {}
            // A pass too many is better than one too few.
            Err(_) => self.handle.wake_all(),
        }
    }

    /// What nobody works on needs no pass; what somebody begins to work on is announced by the operation.
    fn wake(&self, cluster: ResourceId) {
        if self.active.is_on(&cluster) {
            self.handle.wake(cluster);
        }
    }

    fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Ordering::Relaxed);
        self.metrics.watch_connected.set(i64::from(connected));
    }
}
