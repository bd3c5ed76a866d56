//! What wakes the controller.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use pilothouse_arm::ResourceId;
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{Change, ClusterId, Cursor};
use pilothouse_records::{Followed, OperationFeed, Records};
use pilothouse_runtime::reconcile::Handle;
use pilothouse_runtime::{Chain, Policy, TaskError};
use tracing::{debug, info, warn};

use crate::metrics::Metrics;

/// Wakes for every operation that is made or changed.
pub(crate) async fn follow_operations(
    mut feed: OperationFeed,
    handle: Handle<ResourceId>,
) -> Result<(), TaskError> {
    let mut delays = Policy::RECONNECT.delays();
    loop {
        match feed.next().await {
            Ok(Followed::Changed(operations)) => {
                delays = Policy::RECONNECT.delays();
                for operation in operations.iter().filter(|operation| !operation.state.is_terminal()) {
                    handle.wake(operation.cluster());
                }
            }
            Ok(Followed::Missed) => handle.wake_all(),
            Err(error) => {
                let delay = delays.next().unwrap_or_default();
                warn!(error = %Chain(&error), ?delay, "operations cannot be followed for a moment");
                tokio::time::sleep(delay).await;
            }
        }
    }
}

/// Wakes for everything that Clusters Service says.
pub(crate) struct Watch {
    pub(crate) client: clusters_service::Client,
    pub(crate) records: Records,
    pub(crate) handle: Handle<ResourceId>,
    pub(crate) connected: Arc<AtomicBool>,
    pub(crate) metrics: Metrics,
}

impl Watch {
    /// Follows for ever. Begins with everything there is, and after a lost connection where it stood.
    pub(crate) async fn run(self) -> Result<(), TaskError> {
        let mut cursor: Option<Cursor> = None;
        let mut delays = Policy::RECONNECT.delays();
        loop {
            match self.follow(&mut cursor).await {
                Ok(()) => {
                    debug!("the watch of Clusters Service ended; beginning anew");
                    delays = Policy::RECONNECT.delays();
                }
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

    async fn follow(&self, cursor: &mut Option<Cursor>) -> Result<(), clusters_service::Error> {
        let mut events = pin!(self.client.watch(cursor.as_ref()).await?);
        self.set_connected(true);
        while let Some(event) = events.next().await {
            let event = event?;
            match &event.change {
                Change::Cluster(cluster) => match cluster.azure.resource_id().parse() {
                    Ok(id) => self.handle.wake(id),
                    Err(error) => debug!(%error, "a cluster stands for no resource"),
                },
                Change::ClusterDeleted(id) => self.wake_by_id(id).await,
                Change::NodePool(node_pool) => self.wake_by_id(&node_pool.cluster_id).await,
                Change::NodePoolDeleted(cluster, _) => self.wake_by_id(cluster).await,
                _ => {}
            }
            if event.cursor.is_some() {
                *cursor = event.cursor;
            }
        }
        Ok(())
    }

    async fn wake_by_id(&self, id: &ClusterId) {
        match self.records.cluster_by_clusters_service_id(id.as_str()).await {
            Ok(Some(cluster)) => self.handle.wake(cluster.resource.id.clone()),
            Ok(None) => {}
            // A pass too many is better than one too few.
            Err(_) => self.handle.wake_all(),
        }
    }

    fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Ordering::Relaxed);
        self.metrics.watch_connected.set(i64::from(connected));
    }
}
