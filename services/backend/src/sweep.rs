//! Clusters at Clusters Service that no record names, and what belongs to clusters.
//!
//! A backend that loses its lease, or is killed, while a creation is on its way may leave a cluster behind that was
//! already given up here; the same goes for what belongs to one. Nobody would ever ask for it again, so from time to time what Clusters Service has is compared
//! with the records, a part at a time, and what is nobody's is asked to go.
//!
//! Only what the resource provider asked for itself is looked at: it carries the operation's id.
//!
//! That a record is missing is no proof: the records may have been restored from a backup, or be another region's. So
//! nothing is removed of a subscription that the records do not know, nor what is so young that its creation could still
//! be under way, and nothing at all where many are missing at once. What is spared so is counted, for people to look at.

use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pilothouse_arm::ResourceId;
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{ClusterId, ClusterState, ListQuery, properties};
use pilothouse_http::Context;
use pilothouse_records::Records;
use pilothouse_runtime::{Chain, Clock, TaskError, fault};
use pilothouse_store::{Error as StoreError, LeaseName, Parts, Store};
use tracing::{debug, info, warn};

use crate::error::PassError;
use crate::metrics::Metrics;

mod children;

/// Clusters in one go; the next one goes on where this ended. They are one question: whatever part of a list is asked
/// for, Clusters Service reads all of it.
const PART: u32 = 2_000;
/// Clusters that are judged together, and children in one question.
const PAGE: u32 = 100;
/// How many of them may be without a record before that is held to be a mistake of the records.
const FEW: usize = 5;
/// One backend at a time does this; for about as long as a go may take.
const LEASE: Duration = Duration::from_secs(120);

/// What the records say of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is somebody's, or none of our business.
    Stays,
    /// Its record is about another one.
    Replaced,
    /// There is no record.
    Unknown,
}

/// Compares Clusters Service with the records.
#[derive(Debug)]
pub(crate) struct Sweep {
    pub(crate) records: Records,
    pub(crate) store: Store,
    pub(crate) holder: String,
    /// Parts of the work in which nobody else may do anything for a moment.
    pub(crate) leases: Parts,
    pub(crate) clusters_service: clusters_service::Client,
    pub(crate) metrics: Metrics,
    pub(crate) every: Duration,
    pub(crate) call_limit: Duration,
    pub(crate) clock: Clock,
    /// How long the creation of a cluster may take.
    pub(crate) create_limit: Duration,
    /// Up to which all have been looked at in this round.
    pub(crate) position: Mutex<Option<ClusterId>>,
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
            swept = self.part() => swept,
        };
        // It runs out by itself if this fails.
        let _ = self.store.lease_release(&lease).await;
        swept
    }

    async fn part(&self) -> Result<(), PassError> {
        // By what was looked at and not by a number: what goes meanwhile moves nothing past us.
        let search = self.position().as_ref().map(|id| format!("id > '{id}'"));
        let query = ListQuery { search, order: Some("id".to_owned()), page: None, size: Some(PART) };
        let context = Context::new(self.call_limit);
        let found = self.clusters_service.cluster_list(&context, &query).await;
        let found = found.map_err(PassError::ClustersService)?.items;
        for page in found.chunks(PAGE as usize) {
            let is_plausible = self.compare(page).await;
            *self.position() = page.last().map(|cluster| cluster.id.clone());
            if !is_plausible {
                return Ok(());
            }
        }
        if found.len() < PART as usize {
            // From the beginning next time.
            *self.position() = None;
        }
        Ok(())
    }

    fn position(&self) -> MutexGuard<'_, Option<ClusterId>> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares some clusters, and removes those that are nobody's. False if so many are that it cannot be true.
    async fn compare(&self, clusters: &[clusters_service::Cluster]) -> bool {
        let mut nobodys = Vec::new();
        for cluster in clusters {
            match self.look_at(cluster).await {
                Ok(Verdict::Stays) => {}
                Ok(verdict) => nobodys.push((cluster, verdict)),
                // The others do not wait for this one; it is looked at again the next time.
                Err(error) => {
                    let (cluster, error) = (&cluster.id, Chain(&error));
                    info!(%cluster, %error, "a cluster could not be compared with its record; later");
                }
            }
        }
        let unknown = nobodys.iter().filter(|(_, verdict)| *verdict == Verdict::Unknown).count();
        if unknown > FEW {
            self.metrics.orphans_spared.inc_by(u64::try_from(nobodys.len()).unwrap_or(u64::MAX));
            let looked_at = clusters.len();
            warn!(
                unknown,
                looked_at,
                "too many clusters have no record for that to be true; none is deleted: see whether the records are \
                 this region's and whole"
            );
            return false;
        }
        for (cluster, _) in nobodys {
            match self.spared(cluster).await {
                Ok(None) => self.remove(cluster).await,
                Ok(Some(reason)) => {
                    self.metrics.orphans_spared.inc();
                    let resource = cluster.azure.resource_id();
                    warn!(cluster = %cluster.id, resource, reason, "no record names this cluster; it is left alone");
                }
                Err(error) => {
                    let (cluster, error) = (&cluster.id, Chain(&error));
                    info!(%cluster, %error, "a cluster could not be compared with its record; later");
                }
            }
        }
        true
    }

    /// Why a cluster is left alone although no record names it.
    async fn spared(&self, cluster: &clusters_service::Cluster) -> Result<Option<&'static str>, PassError> {
        let limit = SignedDuration::try_from(self.create_limit).unwrap_or(SignedDuration::MAX);
        let grown = cluster.creation_timestamp.saturating_add(limit).unwrap_or(Timestamp::MAX);
        if self.clock.now() < grown {
            return Ok(Some("its creation may still be under way"));
        }
        let resource = cluster.azure.resource_id().parse::<ResourceId>().ok();
        let Some(subscription) = resource.and_then(|resource| resource.subscription_id().ok()) else {
            return Ok(Some("it stands for nothing in a subscription"));
        };
        let known = self.records.subscription_get(subscription).await?;
        Ok(known.is_none().then_some("the records do not know its subscription"))
    }

    async fn look_at(&self, cluster: &clusters_service::Cluster) -> Result<Verdict, PassError> {
        if cluster.state == ClusterState::Uninstalling
            || !cluster.properties.contains_key(properties::OPERATION_ID)
        {
            return Ok(Verdict::Stays);
        }
        let Ok(resource) = cluster.azure.resource_id().parse::<ResourceId>() else {
            return Ok(Verdict::Stays);
        };
        match self.records.cluster_get(&resource).await? {
            // Whoever is at it may be about to write down its id.
            Some(stored) if stored.active_operation.is_some() => Ok(Verdict::Stays),
            Some(stored) if stored.clusters_service_id.as_deref() == Some(cluster.id.as_str()) => {
                self.children(&resource, &cluster.id).await?;
                Ok(Verdict::Stays)
            }
            Some(_) => Ok(Verdict::Replaced),
            None => Ok(Verdict::Unknown),
        }
    }

    async fn remove(&self, cluster: &clusters_service::Cluster) {
        let resource = cluster.azure.resource_id();
        warn!(cluster = %cluster.id, resource, "no record names this cluster; deleting it at Clusters Service");
        let context = Context::new(self.call_limit);
        fault::point("clusters-service.sweep.before");
        let deleted = self.clusters_service.cluster_delete(&context, &cluster.id).await;
        self.removed(&cluster.id, deleted);
        fault::point("clusters-service.sweep.after");
    }

    /// Counts what was asked to go. What could not be asked is found again the next time.
    fn removed(&self, what: &(impl Debug + ?Sized), deleted: Result<(), clusters_service::Error>) {
        match deleted {
            Ok(()) => {
                self.metrics.orphans.inc();
            }
            Err(error) if error.is_not_found() => debug!(?what, "it is gone already"),
            Err(error) => info!(?what, error = %Chain(&error), "it could not be asked to go; later"),
        }
    }
}
