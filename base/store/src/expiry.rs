//! Deletes documents whose time has come.

use std::sync::Weak;
use std::time::Duration;

use futures::future::join_all;
use tracing::warn;

use crate::Error;
use crate::engine::{Command, Guard, Prepared, PreparedAction, PreparedOperation};
use crate::store::Inner;
use crate::wake::Waiter;

/// Deleted in one go.
const CHUNK: usize = 256;
/// With nothing to expire, look this often: for what another process wrote before it died.
const REPAIR: Duration = Duration::from_secs(30);

pub(crate) async fn run(store: Weak<Inner>, mut waiter: Waiter) {
    loop {
        waiter.arm();
        let Some(inner) = store.upgrade() else { return };
        let clock = inner.clock.clone();
        // Before the look: time that passes during it counts.
        let asked = clock.now();
        let pause = match pass(&inner).await {
            Ok(pause) => pause,
            Err(Error::Closed) => return,
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "could not delete expired documents; trying again"
                );
                Duration::from_secs(1)
            }
        };
        drop(inner);
        let pause = jiff::SignedDuration::try_from(pause.min(REPAIR)).unwrap_or_default();
        let until = asked.saturating_add(pause).unwrap_or(jiff::Timestamp::MAX);
        tokio::select! {
            () = waiter.woken() => {}
            () = clock.sleep_until(until) => {}
        }
    }
}

/// Deletes what is due; answers how long nothing more will be.
async fn pass(inner: &Inner) -> Result<Duration, Error> {
    loop {
        let due = inner.engine.due(CHUNK).await?;
        if due.keys.is_empty() {
            let next = due.next.and_then(|next| u64::try_from(next).ok());
            return Ok(next.map_or(REPAIR, Duration::from_micros));
        }
        // Each is a transaction of its own; submitted together, they are one batch. Whether a document is
        // still due is decided there, so a renewal in between, or another process at the same work, is harmless.
        let deletes = due.keys.into_iter().map(|key| {
            let indexed =
                inner.catalog.prepared(&key.container).is_ok_and(|container| container.has_indexes());
            let operation =
                PreparedOperation { key, indexed, guard: Guard::Expired, action: PreparedAction::Delete };
            inner.engine.submit(Command::Commit(Prepared { operations: vec![operation], fences: Vec::new() }))
        });
        for deleted in join_all(deletes).await {
            deleted?;
        }
    }
}
