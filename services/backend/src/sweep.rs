//! Clusters at Clusters Service that no record names, and what belongs to clusters.
//!
//! A backend that loses its lease, or is killed, while a creation is on its way may leave a cluster behind that was
//! already given up here; the same goes for what belongs to one. Nobody would ever ask for it again, so from time to time what Clusters Service has is compared
//! with the records, a part at a time, and what is nobody's is asked to go.
//!
//! Only what the resource provider asked for itself is looked at: it carries the operation's id.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pilothouse_arm::ResourceId;
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{ClusterState, ListQuery, properties};
use pilothouse_http::Context;
use pilothouse_records::Records;
use pilothouse_runtime::{Chain, TaskError, fault};
use pilothouse_store::{Error as StoreError, LeaseName, Store};
use tracing::{debug, info, warn};

use crate::error::PassError;
use crate::leases::Leases;
use crate::metrics::Metrics;

mod children;

/// Clusters in one question.
const PAGE: u32 = 100;
/// Questions in one go; the next one goes on where this ended.
const PAGES: u32 = 50;
/// One backend at a time does this; for about as long as a go may take.
const LEASE: Duration = Duration::from_secs(120);

/// Compares Clusters Service with the records.
#[derive(Debug)]
pub(crate) struct Sweep {
    pub(crate) records: Records,
    pub(crate) store: Store,
    pub(crate) holder: String,
    /// Parts of the work in which nobody else may do anything for a moment.
    pub(crate) leases: Leases,
    pub(crate) clusters_service: clusters_service::Client,
    pub(crate) metrics: Metrics,
    pub(crate) every: Duration,
    pub(crate) call_limit: Duration,
    /// The page to go on with.
    pub(crate) page: AtomicU32,
}

impl Sweep {
    /// Does it again and again, for ever.
    pub(crate) async fn run(self) -> Result<(), TaskError> {
        loop {
            tokio::time::sleep(self.every).await;
            if let Err(error) = self.once().await {
                info!(error = %Chain(&error), "clusters could not be compared with their records; later");
            }
        }
    }

    async fn once(&self) -> Result<(), PassError> {
        let name = LeaseName::try_new("backend/sweep").map_err(PassError::Lease)?;
        let lease = match self.store.lease_acquire(&name, &self.holder, LEASE).await {
            Ok(lease) => lease,
            Err(StoreError::LeaseHeld { .. }) => return Ok(()),
            Err(error) => return Err(PassError::Lease(error)),
        };
        let swept = tokio::select! {
            () = tokio::time::sleep_until(lease.believed_until()) => Ok(()),
            swept = self.pages() => swept,
        };
        // It runs out by itself if this fails.
        let _ = self.store.lease_release(&lease).await;
        swept
    }

    async fn pages(&self) -> Result<(), PassError> {
        for _ in 0..PAGES {
            let page = self.page.load(Ordering::Relaxed).max(1);
            let query =
                ListQuery { order: Some("id".to_owned()), page: Some(page), size: Some(PAGE), search: None };
            let context = Context::new(self.call_limit);
            let found = self.clusters_service.cluster_list(&context, &query).await;
            let found = found.map_err(PassError::ClustersService)?;
            for cluster in &found.items {
                self.look_at(cluster).await?;
            }
            if found.items.len() < PAGE as usize {
                // From the beginning next time. What moved up by a page because others went is looked at then.
                self.page.store(1, Ordering::Relaxed);
                return Ok(());
            }
            self.page.store(page + 1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn look_at(&self, cluster: &clusters_service::Cluster) -> Result<(), PassError> {
        if cluster.state == ClusterState::Uninstalling
            || !cluster.properties.contains_key(properties::OPERATION_ID)
        {
            return Ok(());
        }
        let Ok(resource) = cluster.azure.resource_id().parse::<ResourceId>() else { return Ok(()) };
        let stored = self.records.cluster_get(&resource).await?;
        match &stored {
            // Whoever is at it may be about to write down its id.
            Some(stored) if stored.active_operation.is_some() => return Ok(()),
            Some(stored) if stored.clusters_service_id.as_deref() == Some(cluster.id.as_str()) => {
                return self.children(&resource, &cluster.id).await;
            }
            _ => {}
        }
        warn!(cluster = %cluster.id, %resource, "no record names this cluster; deleting it at Clusters Service");
        let context = Context::new(self.call_limit);
        fault::point("clusters-service.sweep.before");
        let deleted = self.clusters_service.cluster_delete(&context, &cluster.id).await;
        self.removed(&cluster.id, deleted)?;
        fault::point("clusters-service.sweep.after");
        Ok(())
    }

    /// Counts what was asked to go.
    fn removed(
        &self,
        what: &(impl Debug + ?Sized),
        deleted: Result<(), clusters_service::Error>,
    ) -> Result<(), PassError> {
        match deleted {
            Ok(()) => {
                self.metrics.orphans.inc();
            }
            Err(error) if error.is_not_found() => debug!(?what, "it is gone already"),
            Err(error) => return Err(PassError::ClustersService(error)),
        }
        Ok(())
    }
}
