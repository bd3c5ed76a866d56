//! Who works on what.
//!
//! A lease's row is never removed, so there is not one per operation but one per part of the work, and clusters are
//! spread over the parts by their ids. A backend takes a part when it has something to do in it, keeps it while that
//! lasts, and gives it back afterwards.
//!
//! Whoever works under a lease stops where it is once the lease has run out by its own clock ([`Grant::lost`]): by then
//! another backend may have it. What it was about to write is refused anyway.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::join_all;
use pilothouse_arm::ResourceId;
use pilothouse_store::{Conflict, Error, Lease, LeaseName, Store};
use tokio::sync::{Mutex, watch};
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
    /// Each behind a lock of its own, so that nobody waits for the lease of a part that is not theirs.
    parts: Vec<Mutex<Option<Held>>>,
}

#[derive(Debug)]
struct Held {
    lease: Lease,
    /// Until when it may be believed in.
    until: watch::Sender<Instant>,
    /// For whose sake.
    clusters: HashSet<ResourceId>,
}

/// What asking for a part brought.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It is ours.
    Ours(Grant),
    /// It is somebody else's, for so long at least.
    Theirs(Duration),
}

/// A part that is ours.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) lease: Lease,
    until: watch::Receiver<Instant>,
}

impl Leases {
    pub(crate) fn new(store: Store, holder: String, time_to_live: Duration, metrics: Metrics) -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Self { store, holder, time_to_live, metrics, parts }
    }

    /// By which token the part that a cluster is in is ours, if it is. Renewals keep it.
    pub(crate) async fn token(&self, cluster: &ResourceId) -> Option<u64> {
        let slot = self.parts.get(part(cluster))?.lock().await;
        slot.as_ref().map(|ours| ours.lease.token())
    }

    /// Takes the part that a cluster is in, or keeps it.
    pub(crate) async fn hold(&self, cluster: &ResourceId) -> Result<Turn, Error> {
        let part = part(cluster);
        let Some(slot) = self.parts.get(part) else { return Ok(Turn::Theirs(self.time_to_live)) };
        let mut slot = slot.lock().await;
        if let Some(ours) = slot.as_mut() {
            if ours.lease.believed_until() > Instant::now() {
                ours.clusters.insert(cluster.clone());
                return Ok(Turn::Ours(ours.grant()));
            }
            self.drop_part(&mut slot);
        }
        let name = LeaseName::try_new(format!("backend/part-{part:02}"))?;
        match self.store.lease_acquire(&name, &self.holder, self.time_to_live).await {
            Ok(lease) => {
                let until = watch::Sender::new(lease.believed_until());
                let held = Held { lease, until, clusters: HashSet::from([cluster.clone()]) };
                let grant = held.grant();
                *slot = Some(held);
                self.metrics.leases.inc();
                Ok(Turn::Ours(grant))
            }
            Err(Error::LeaseHeld { remaining, .. }) => Ok(Turn::Theirs(remaining)),
            Err(error) => Err(error),
        }
    }

    /// There is nothing left to do for a cluster: its part goes back unless another one needs it.
    pub(crate) async fn leave(&self, cluster: &ResourceId) {
        let Some(slot) = self.parts.get(part(cluster)) else { return };
        let mut slot = slot.lock().await;
        let Some(ours) = slot.as_mut() else { return };
        ours.clusters.remove(cluster);
        if ours.clusters.is_empty() {
            let lease = ours.lease.clone();
            self.drop_part(&mut slot);
            self.release(&lease).await;
        }
    }

    /// Renews everything that is held, well before it runs out, for ever.
    pub(crate) async fn renew(&self) {
        loop {
            tokio::time::sleep(self.time_to_live / 3).await;
            join_all(self.parts.iter().enumerate().map(|(part, slot)| self.renew_part(part, slot))).await;
        }
    }

    async fn renew_part(&self, part: usize, slot: &Mutex<Option<Held>>) {
        let mut slot = slot.lock().await;
        let Some(ours) = slot.as_mut() else { return };
        match self.store.lease_renew(&ours.lease, self.time_to_live).await {
            Ok(lease) => {
                ours.until.send_replace(lease.believed_until());
                ours.lease = lease;
            }
            Err(Error::Conflict(Conflict::LeaseLost { .. })) => {
                info!(part, "another backend has taken over a part of the work");
                self.drop_part(&mut slot);
            }
            Err(error) => warn!(part, %error, "a lease could not be renewed"),
        }
    }

    /// Gives everything back, so that others need not wait.
    pub(crate) async fn release_all(&self) {
        for slot in &self.parts {
            let mut slot = slot.lock().await;
            if let Some(lease) = slot.as_ref().map(|held| held.lease.clone()) {
                self.drop_part(&mut slot);
                self.release(&lease).await;
            }
        }
    }

    async fn release(&self, lease: &Lease) {
        match self.store.lease_release(lease).await {
            Ok(()) | Err(Error::Conflict(Conflict::LeaseLost { .. })) => {}
            // It runs out by itself.
            Err(error) => warn!(lease = %lease.name(), %error, "a lease could not be given back"),
        }
    }

    fn drop_part(&self, slot: &mut Option<Held>) {
        if slot.take().is_some() {
            self.metrics.leases.dec();
        }
    }
}

impl Held {
    fn grant(&self) -> Grant {
        Grant { lease: self.lease.clone(), until: self.until.subscribe() }
    }
}

impl Grant {
    /// Returns once the part is, or may be, somebody else's.
    pub(crate) async fn lost(mut self) {
        loop {
            let until = *self.until.borrow_and_update();
            tokio::select! {
                () = tokio::time::sleep_until(until) => return,
                renewed = self.until.changed() => if renewed.is_err() { return },
            }
        }
    }
}

/// The same in every process and every version: FNV-1a over the key.
fn part(cluster: &ResourceId) -> usize {
    let hash = cluster.key().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    usize::try_from(hash % PARTS).unwrap_or_default()
}
