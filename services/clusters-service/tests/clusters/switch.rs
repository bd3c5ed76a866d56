//! Lets a test stop the world after so many requests, as a crash would find it.

use std::future;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts requests, and holds every one beyond a number for ever: it was carried out, its answer never comes.
pub(crate) struct Switch {
    seen: AtomicUsize,
    limit: AtomicUsize,
}

impl Switch {
    pub(crate) fn open() -> Self {
        Self { seen: AtomicUsize::new(0), limit: AtomicUsize::new(usize::MAX) }
    }

    /// From now on only so many more are answered.
    pub(crate) fn limit(&self, more: usize) {
        self.limit.store(self.seen.load(Ordering::SeqCst).saturating_add(more), Ordering::SeqCst);
    }

    pub(crate) fn release(&self) {
        self.limit.store(usize::MAX, Ordering::SeqCst);
    }

    pub(crate) fn seen(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }

    /// Whether somebody waits for an answer in vain.
    pub(crate) fn holds(&self) -> bool {
        self.seen() > self.limit.load(Ordering::SeqCst)
    }

    pub(crate) async fn pass(&self) {
        if self.seen.fetch_add(1, Ordering::SeqCst) >= self.limit.load(Ordering::SeqCst) {
            future::pending::<()>().await;
        }
    }
}
