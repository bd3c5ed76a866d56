//! The driver behind every controller.
//!
//! A controller is an `impl` [`Reconcile`]: it lists the keys there are, and makes one idempotent pass over
//! one key. *When* passes happen is decided here:
//!
//! - **Event and timer.** [`Handle::wake`] asks for a pass over one key, [`Handle::wake_all`] over all of them;
//!   and every [`Options::resync`] all keys are listed and visited anyway, so that a missed event costs time,
//!   never correctness. An event carries no more than the key: the pass reads the state itself.
//! - **One at a time per key.** A wake during a pass leads to exactly one further pass after it, however many
//!   wakes there were. Different keys run side by side, up to [`Options::concurrency`].
//! - **No retries inside.** A pass that fails is followed by another, later and later by a named
//!   [`Policy`]; success resets that. A panic, or a pass that exceeds its limit, is a failure of that key and of
//!   nothing else. A wake shortens the wait after a failure, but only down to the policy's first
//!   delay: a pass that fails, and whose own writes wake it, must not spin.
//! - **Wakes before routine.** Woken and retried keys go first, so that a resync of ten thousand keys
//!   does not delay the one that somebody is waiting for; yet every eighth start is a routine one, so that
//!   routine is never starved.
//! - **Turns.** Keys stand in lanes ([`Reconcile::lane`]) that take turns, so that whoever has ten thousand keys
//!   waiting delays nobody else; and no lane takes more than three quarters of the places, so that passes that
//!   hang leave room. By default there is one lane for all, which may take every place.
//! - **Costs.** A wake, a start and a finish are logarithmic in the number of keys that have something
//!   pending. Keys at rest take no memory at all.
//! - **Shutdown.** No new pass starts; those running are finished, and then [`Controller::run`] returns.
//!
//! Inside, a queue holds all of these rules and neither waits nor spawns; the driver only carries out what it
//! says.

use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backoff::{Jitter, Policy};
use crate::shutdown::Shutdown;
use crate::tasks::{OnExit, TaskError, Tasks};

mod driver;
mod lanes;
mod queue;
mod status;
#[cfg(test)]
mod tests;

pub use lanes::Lane;
use lanes::LaneOf;
use queue::Queue;
pub use status::{ControllerStatus, KeyState, KeyStatus, PassStatus, Totals};

/// One idempotent look at the world.
pub trait Reconcile: Send + Sync + 'static {
    /// What a pass is about: a cluster, a node pool.
    type Key: Clone + Eq + Hash + Display + Send + Sync + 'static;

    /// What exists now. The driver visits every key at least once per resync, event or no event.
    fn list(&self) -> impl Future<Output = Result<Vec<Self::Key>, TaskError>> + Send;

    /// Brings one thing a step closer to what it should be, from whatever state it is found in. The key may
    /// be gone by now: that is [`Next::Done`], not an error.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Next, TaskError>> + Send;

    /// With whom a key shares its turns: lanes are served one after the other. Must always say the same of a key.
    fn lane(&self, _key: &Self::Key) -> Lane {
        Lane::COMMON
    }
}

/// When to look again after a pass that went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// On the next event, or the next resync.
    Done,
    /// After this time, unless something wakes the key before.
    After(Duration),
}

/// How a controller is driven.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often every key is visited without any event.
    pub resync: Duration,
    /// How many passes run at once; zero counts as one.
    pub concurrency: usize,
    /// How long to wait after a pass, or a listing, that failed.
    pub error_policy: Policy,
    /// How long one pass, or one listing, may take. It is cancelled then, and counts as failed: a peer that
    /// never answers must not hold one of the few places for ever.
    pub pass_limit: Duration,
    /// Makes delays predictable in tests; random if `None`.
    pub jitter_seed: Option<u64>,
}

/// A reconciler and all that is needed to drive it.
#[derive(Debug)]
pub struct Controller<R: Reconcile> {
    reconciler: Arc<R>,
    options: Options,
    shared: Arc<Shared<R::Key>>,
}

/// Wakes a controller and shows what it is at. A cheap handle.
#[derive(Debug)]
pub struct Handle<K> {
    shared: Arc<Shared<K>>,
}

#[derive(Debug)]
struct Shared<K> {
    name: String,
    queue: Mutex<Queue<K>>,
    /// Something was added to the queue: the driver should look.
    added: Notify,
    /// Something was finished: whoever waits for rest should look.
    finished: Notify,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            resync: Duration::from_secs(300),
            concurrency: 4,
            error_policy: Policy::RECONCILE_ERROR,
            pass_limit: Duration::from_secs(300),
            jitter_seed: None,
        }
    }
}

// === impl Controller ===

impl<R: Reconcile> Controller<R> {
    /// A controller that does nothing yet.
    pub fn new(name: impl Into<String>, reconciler: R, options: Options) -> Self {
        let jitter = options.jitter_seed.map_or_else(Jitter::random, Jitter::seeded);
        let reconciler = Arc::new(reconciler);
        let lane_of = {
            let reconciler = reconciler.clone();
            LaneOf::new(move |key: &R::Key| reconciler.lane(key))
        };
        let shared = Arc::new(Shared {
            name: name.into(),
            queue: Mutex::new(Queue::new(options.error_policy, jitter, lane_of, options.concurrency)),
            added: Notify::new(),
            finished: Notify::new(),
        });
        Self { reconciler, options, shared }
    }

    /// What others wake it with. Wakes before [`run`](Self::run) are kept.
    pub fn handle(&self) -> Handle<R::Key> {
        Handle { shared: self.shared.clone() }
    }

    /// Drives until shutdown: lists once at the start, then waits for events and timers. Returns when the
    /// passes that were running have finished.
    pub async fn run(self, shutdown: Shutdown) {
        driver::run(self.reconciler, self.options, self.shared, shutdown).await;
    }

    /// Runs as a task of its name, without which the process makes no sense.
    pub fn spawn(self, tasks: &Tasks) -> Handle<R::Key> {
        let handle = self.handle();
        let shutdown = tasks.shutdown().clone();
        tasks.spawn(self.shared.name.clone(), OnExit::StopProcess, async move {
            self.run(shutdown).await;
            Ok(())
        });
        handle
    }
}

// === impl Handle ===

impl<K: Clone + Eq + Hash + Display> Handle<K> {
    /// Asks for a pass over `key` that begins after this call.
    pub fn wake(&self, key: K) {
        self.shared.lock().wake(key, Instant::now());
        self.shared.added.notify_one();
    }

    /// Asks for a pass over every key there is, as listed after this call.
    pub fn wake_all(&self) {
        self.shared.lock().wake_all();
        self.shared.added.notify_one();
    }

    /// What it is at, for the debug page.
    pub fn status(&self) -> ControllerStatus {
        self.shared.lock().status(&self.shared.name, Instant::now())
    }

    /// Returns once nothing runs and nothing is ready to run; keys that wait for a moment still to come, a retry
    /// or a second look, do not count. For tests of running controllers, which would otherwise have to sleep.
    pub async fn at_rest(&self) {
        loop {
            // Before the look, so that what finishes in between is not missed.
            let finished = self.shared.finished.notified();
            if self.shared.lock().is_at_rest(Instant::now()) {
                return;
            }
            finished.await;
        }
    }
}

impl<K> Clone for Handle<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

// === impl Shared ===

impl<K> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, Queue<K>> {
        // Only a panic in a key's `Hash`, `Eq` or `Display` could poison it; the queue's own steps do not fail.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
