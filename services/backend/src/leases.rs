//! Who works on what.
//!
//! A lease's row is never removed, so there is not one per operation but one per part of the work, and clusters are
//! spread over the parts by their ids. A backend takes a part when it has something to do in it, keeps it while that
//! lasts, and gives it back afterwards.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use pilothouse_arm::ResourceId;
use pilothouse_store::{Conflict, Error, Lease, LeaseName, Store};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::metrics::Metrics;

/// Enough that a few backends share evenly, few enough to be renewed one by one.
const PARTS: u64 = 64;

/// The parts of the work that this backend holds.
#[derive(Debug)]
pub(crate) struct Leases {
    store: Store,
    holder: String,
    time_to_live: Duration,
    metrics: Metrics,
    held: Mutex<HashMap<u64, Held>>,
}

#[derive(Debug)]
struct Held {
    lease: Lease,
    /// For whose sake.
    clusters: HashSet<ResourceId>,
}

/// What asking for a part brought.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It is ours.
    Ours(Lease),
    /// It is somebody else's, for so long at least.
    Theirs(Duration),
}

impl Leases {
    pub(crate) fn new(store: Store, holder: String, time_to_live: Duration, metrics: Metrics) -> Self {
        Self { store, holder, time_to_live, metrics, held: Mutex::default() }
    }

    /// Takes the part that a cluster is in, or keeps it.
    pub(crate) async fn hold(&self, cluster: &ResourceId) -> Result<Turn, Error> {
        let part = part(cluster);
        let mut held = self.held.lock().await;
        if let Some(ours) = held.get_mut(&part) {
            if ours.lease.believed_until() > Instant::now() {
                ours.clusters.insert(cluster.clone());
                return Ok(Turn::Ours(ours.lease.clone()));
            }
            held.remove(&part);
        }
        let name = LeaseName::try_new(format!("backend/part-{part:02}"))?;
        match self.store.lease_acquire(&name, &self.holder, self.time_to_live).await {
            Ok(lease) => {
                let clusters = HashSet::from([cluster.clone()]);
                held.insert(part, Held { lease: lease.clone(), clusters });
                self.count(&held);
                Ok(Turn::Ours(lease))
            }
            Err(Error::LeaseHeld { remaining, .. }) => Ok(Turn::Theirs(remaining)),
            Err(error) => Err(error),
        }
    }

    /// There is nothing left to do for a cluster: its part goes back unless another one needs it.
    pub(crate) async fn leave(&self, cluster: &ResourceId) {
        let part = part(cluster);
        let mut held = self.held.lock().await;
        let Some(ours) = held.get_mut(&part) else { return };
        ours.clusters.remove(cluster);
        if ours.clusters.is_empty()
            && let Some(Held { lease, .. }) = held.remove(&part)
        {
            self.count(&held);
            self.release(&lease).await;
        }
    }

    /// Renews what is held, several times within the time to live.
    pub(crate) async fn renew(&self) {
        loop {
            tokio::time::sleep(self.time_to_live / 3).await;
            let mut held = self.held.lock().await;
            let parts: Vec<_> = held.keys().copied().collect();
            for part in parts {
                let Some(ours) = held.get_mut(&part) else { continue };
                match self.store.lease_renew(&ours.lease, self.time_to_live).await {
                    Ok(lease) => ours.lease = lease,
                    Err(Error::Conflict(Conflict::LeaseLost { .. })) => {
                        info!(part, "another backend has taken over a part of the work");
                        held.remove(&part);
                    }
                    Err(error) => warn!(part, %error, "a lease could not be renewed"),
                }
            }
            self.count(&held);
        }
    }

    /// Gives everything back, so that others need not wait.
    pub(crate) async fn release_all(&self) {
        let mut held = self.held.lock().await;
        for (_, Held { lease, .. }) in held.drain() {
            self.release(&lease).await;
        }
        self.count(&held);
    }

    async fn release(&self, lease: &Lease) {
        match self.store.lease_release(lease).await {
            Ok(()) | Err(Error::Conflict(Conflict::LeaseLost { .. })) => {}
            // It runs out by itself.
            Err(error) => warn!(lease = %lease.name(), %error, "a lease could not be given back"),
        }
    }

    fn count(&self, held: &HashMap<u64, Held>) {
        self.metrics.leases.set(i64::try_from(held.len()).unwrap_or(i64::MAX));
    }
}

/// The same in every process and every version: FNV-1a over the key.
fn part(cluster: &ResourceId) -> u64 {
    let hash = cluster.key().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash % PARTS
}
