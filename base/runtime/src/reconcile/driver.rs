//! Carries out what the queue says: spawns, waits, and reports back.

use std::future::{self, Future};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{Instrument, debug, error, info, info_span, warn};

use super::queue::Outcome;
use super::{Next, Options, Reconcile, Shared};
use crate::chain::Chain;
use crate::instant;
use crate::shutdown::Shutdown;
use crate::tasks::{TaskError, panic_message};

/// What comes back from the driver's own tasks.
enum Finished<K> {
    Pass(K, Outcome),
    Listing(Result<Vec<K>, String>),
}

struct Driver<R: Reconcile> {
    reconciler: Arc<R>,
    options: Options,
    shared: Arc<Shared<R::Key>>,
    /// Owned by the future of the driver's task, so that they end with it if it is aborted.
    work: JoinSet<Finished<R::Key>>,
    next_listing: Instant,
}

pub(super) async fn run<R: Reconcile>(
    reconciler: Arc<R>,
    options: Options,
    shared: Arc<Shared<R::Key>>,
    shutdown: Shutdown,
) {
    let next_listing = Instant::now();
    let mut driver = Driver { reconciler, options, shared, work: JoinSet::new(), next_listing };
    let mut requested = pin!(shutdown.requested());
    loop {
        let timer = driver.start_what_is_due();
        tokio::select! {
            // In this order: no pass starts once shutdown was requested.
            biased;
            () = &mut requested => break,
            Some(finished) = driver.work.join_next() => driver.finish(finished),
            () = driver.shared.added.notified() => {}
            () = wait_until(timer) => {}
        }
    }
    debug!(running = driver.work.len(), "no more passes");
    while let Some(finished) = driver.work.join_next().await {
        driver.finish(finished);
    }
}

async fn wait_until(timer: Option<Instant>) {
    match timer {
        Some(at) => sleep_until(at).await,
        None => future::pending().await,
    }
}

impl<R: Reconcile> Driver<R> {
    /// Starts as much as may run now, and answers when to look again if nothing happens before.
    fn start_what_is_due(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let shared = self.shared.clone();
        let mut queue = shared.lock();
        let lists = queue.start_listing(self.next_listing <= now);
        let mut keys = Vec::new();
        while queue.running < self.options.concurrency.max(1)
            && let Some(key) = queue.start(now)
        {
            keys.push(key);
        }
        // A listing that is due while another runs begins when that one ends; waiting for its moment, which is
        // past, would spin. Nor is there anything to look at by the clock while every place is taken.
        let waits_for_listing = !queue.listing_runs();
        let pass = if queue.running < self.options.concurrency.max(1) { queue.next_due() } else { None };
        drop(queue);

        if lists {
            self.next_listing = instant::after(now, self.options.resync);
            self.spawn_listing();
        }
        for key in keys {
            self.spawn_pass(key);
        }
        waits_for_listing.then_some(self.next_listing).into_iter().chain(pass).min()
    }

    fn spawn_listing(&mut self) {
        let reconciler = self.reconciler.clone();
        let limit = self.options.pass_limit;
        let span = info_span!(parent: None, "list", controller = %self.shared.name);
        let listing = async move {
            let listed = contained(limit, async { reconciler.list().await }).await;
            if let Err(error) = &listed {
                warn!(error, "cannot list, trying again later");
            }
            Finished::Listing(listed)
        };
        self.work.spawn(listing.instrument(span));
    }

    fn spawn_pass(&mut self, key: R::Key) {
        let reconciler = self.reconciler.clone();
        let limit = self.options.pass_limit;
        // Not below the driver's own span, which never ends: each pass is a trace of its own.
        let span = info_span!(parent: None, "reconcile", controller = %self.shared.name, key = %key);
        let pass = async move {
            let outcome = match contained(limit, async { reconciler.reconcile(&key).await }).await {
                Ok(Next::Done) => Outcome::Done,
                Ok(Next::After(delay)) => Outcome::After(delay),
                Err(error) => {
                    warn!(error, "pass failed, trying again later");
                    Outcome::Failed(error)
                }
            };
            Finished::Pass(key, outcome)
        };
        self.work.spawn(pass.instrument(span));
    }

    fn finish(&mut self, finished: Result<Finished<R::Key>, tokio::task::JoinError>) {
        let now = Instant::now();
        let mut queue = self.shared.lock();
        match finished {
            Ok(Finished::Pass(key, outcome)) => {
                let recovered = queue.finish(&key, outcome, now);
                if recovered > 0 {
                    info!(controller = %self.shared.name, %key, failures = recovered, "recovered");
                }
            }
            Ok(Finished::Listing(listed)) => {
                if let Some(delay) = queue.finish_listing(listed, now) {
                    self.next_listing = self.next_listing.min(instant::after(now, delay));
                }
            }
            // Panics are contained and nobody aborts them, so this is the runtime going away.
            Err(error) => error!(%error, "a pass was lost"),
        }
        drop(queue);
        self.shared.finished.notify_waiters();
    }
}

/// Makes an error of everything that can go wrong in foreign code, written with its causes.
async fn contained<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, TaskError>>,
) -> Result<T, String> {
    // The future is dropped right after a panic; the reconciler itself is shared, and its passes are
    // idempotent, so another pass finds nothing worse than what any failure leaves.
    match timeout(limit, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(error))) => Err(Chain(error.as_ref()).to_string()),
        Ok(Err(payload)) => Err(format!("panicked: {}", panic_message(payload.as_ref()))),
        Err(_elapsed) => Err(format!("took longer than {}", humantime::format_duration(limit))),
    }
}
