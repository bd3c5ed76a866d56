//! Who of several replicas works on what.
//!
//! A lease's row is never removed, so there is not one per thing to work on but one per part of the work, and things are
//! spread over the parts by their keys. A replica takes a part when it has something to do in it, keeps it while that
//! lasts, and gives it back afterwards: at once ([`Parts::leave`]), or some time later if there is probably more to come
//! ([`Parts::rest`]).
//!
//! Whoever works under a lease stops where it is once the lease has run out by its own clock ([`Grant::lost`]): by then
//! another replica may have it. What it was about to write is refused anyway, if it is fenced.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::{Conflict, Error, Lease, LeaseName, Store};

/// Enough that a few replicas share evenly, few enough to be renewed one by one.
const PARTS: u64 = 64;

/// The parts of a service's work that this replica holds.
pub struct Parts {
    store: Store,
    /// Whose work it is; in front of the names of the leases.
    service: &'static str,
    holder: String,
    time_to_live: Duration,
    /// Told of every part that is taken (true) and given up (false).
    counted: Box<dyn Fn(bool) + Send + Sync>,
    /// Each behind a lock of its own, so that nobody waits for the lease of a part that is not theirs.
    parts: Vec<Mutex<Option<Held>>>,
}

#[derive(Debug)]
struct Held {
    lease: Lease,
    /// Until when it may be believed in.
    until: watch::Sender<Instant>,
    /// For whose sake.
    keys: HashSet<String>,
    /// Nobody has needed it since it was last looked at.
    idle: bool,
}

/// What asking for a part brought.
#[derive(Debug)]
pub enum Turn {
    /// It is ours.
    Ours(Grant),
    /// It is somebody else's, for so long at least.
    Theirs(Duration),
}

/// A part that is ours.
#[derive(Clone, Debug)]
pub struct Grant {
    lease: Lease,
    until: watch::Receiver<Instant>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, holder, time_to_live, .. } = self;
        formatter
            .debug_struct("Parts")
            .field("service", service)
            .field("holder", holder)
            .field("time_to_live", time_to_live)
            .finish_non_exhaustive()
    }
}

impl Parts {
    /// Who holds what a replica holds. Without a name of its own it is told from all others, and from what it was before a restart;
    /// with one, what it held before is its own at once.
    #[must_use]
    pub fn holder(service: &str, replica: Option<&str>) -> String {
        match replica {
            Some(name) => format!("{service}-{name}"),
            None => format!("{service}-{}", uuid::Uuid::new_v4()),
        }
    }

    /// None of them at first.
    pub fn new(store: Store, service: &'static str, holder: String, time_to_live: Duration) -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Self { store, service, holder, time_to_live, counted: Box::new(|_| {}), parts }
    }

    /// Tells of every part that is taken (true) and given up (false).
    #[must_use]
    pub fn counted_by(mut self, counted: impl Fn(bool) + Send + Sync + 'static) -> Self {
        self.counted = Box::new(counted);
        self
    }

    /// By which token the part that a key is in is ours, if it is. Renewals keep it.
    pub async fn token(&self, key: &str) -> Option<u64> {
        let slot = self.parts.get(part(key))?.lock().await;
        slot.as_ref().map(|ours| ours.lease.token())
    }

    /// Takes the part that a key is in, or keeps it.
    ///
    /// # Errors
    ///
    /// When the store does not answer.
    pub async fn hold(&self, key: &str) -> Result<Turn, Error> {
        let part = part(key);
        let Some(slot) = self.parts.get(part) else { return Ok(Turn::Theirs(self.time_to_live)) };
        let mut slot = slot.lock().await;
        if let Some(ours) = slot.as_mut() {
            if ours.lease.believed_until() > Instant::now() {
                ours.keys.insert(key.to_owned());
                ours.idle = false;
                return Ok(Turn::Ours(ours.grant()));
            }
            self.drop_part(&mut slot);
        }
        let name = LeaseName::try_new(format!("{}/part-{part:02}", self.service))?;
        match self.store.lease_acquire(&name, &self.holder, self.time_to_live).await {
            Ok(lease) => {
                let until = watch::Sender::new(lease.believed_until());
                let held = Held { lease, until, keys: HashSet::from([key.to_owned()]), idle: false };
                let grant = held.grant();
                *slot = Some(held);
                (self.counted)(true);
                Ok(Turn::Ours(grant))
            }
            Err(Error::LeaseHeld { remaining, .. }) => Ok(Turn::Theirs(remaining)),
            Err(error) => Err(error),
        }
    }

    /// There is nothing left to do for a key: its part goes back unless another one needs it.
    pub async fn leave(&self, key: &str) {
        let Some(slot) = self.parts.get(part(key)) else { return };
        let mut slot = slot.lock().await;
        let Some(ours) = slot.as_mut() else { return };
        ours.keys.remove(key);
        if ours.keys.is_empty() {
            self.give_back(&mut slot).await;
        }
    }

    /// There is nothing to do for a key now: its part goes back unless it is asked for again soon. That costs nothing, and
    /// asking again costs nothing either.
    pub async fn rest(&self, key: &str) {
        let Some(slot) = self.parts.get(part(key)) else { return };
        if let Some(ours) = slot.lock().await.as_mut() {
            ours.keys.remove(key);
        }
    }

    /// Renews everything that is held, well before it runs out, for ever; what nobody needs any more goes back.
    pub async fn renew(&self) {
        loop {
            tokio::time::sleep(self.time_to_live / 3).await;
            join_all(self.parts.iter().enumerate().map(|(part, slot)| self.renew_part(part, slot))).await;
        }
    }

    async fn renew_part(&self, part: usize, slot: &Mutex<Option<Held>>) {
        let mut slot = slot.lock().await;
        let Some(ours) = slot.as_mut() else { return };
        if ours.keys.is_empty() {
            if ours.idle {
                self.give_back(&mut slot).await;
                return;
            }
            ours.idle = true;
        }
        match self.store.lease_renew(&ours.lease, self.time_to_live).await {
            Ok(lease) => {
                ours.until.send_replace(lease.believed_until());
                ours.lease = lease;
            }
            Err(Error::Conflict(Conflict::LeaseLost { .. })) => {
                info!(service = self.service, part, "another replica has taken over a part of the work");
                self.drop_part(&mut slot);
            }
            Err(error) => {
                warn!(service = self.service, part, %error, "a lease could not be renewed");
            }
        }
    }

    /// Gives everything back, so that others need not wait.
    pub async fn release_all(&self) {
        for slot in &self.parts {
            self.give_back(&mut *slot.lock().await).await;
        }
    }

    async fn give_back(&self, slot: &mut Option<Held>) {
        let Some(lease) = slot.as_ref().map(|held| held.lease.clone()) else { return };
        self.drop_part(slot);
        match self.store.lease_release(&lease).await {
            Ok(()) | Err(Error::Conflict(Conflict::LeaseLost { .. })) => {}
            // It runs out by itself.
            Err(error) => warn!(lease = %lease.name(), %error, "a lease could not be given back"),
        }
    }

    fn drop_part(&self, slot: &mut Option<Held>) {
        if slot.take().is_some() {
            (self.counted)(false);
        }
    }
}

impl Held {
    fn grant(&self) -> Grant {
        Grant { lease: self.lease.clone(), until: self.until.subscribe() }
    }
}

impl Grant {
    /// What to fence with.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Returns once the part is, or may be, somebody else's.
    pub async fn lost(mut self) {
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
fn part(key: &str) -> usize {
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    usize::try_from(hash % PARTS).unwrap_or_default()
}
