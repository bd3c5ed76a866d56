//! How long the past is kept.
//!
//! Time is remembered as marks: every so often, the revision the store is at. What lies before the newest mark
//! that is old enough is compacted; so the work is in proportion to what happened since, not to what is stored.

use std::sync::Weak;
use std::time::Duration;

use tracing::{info, warn};

use crate::engine::{Command, Maintenance, Reply};
use crate::store::Inner;
use crate::{Error, Revision};

/// How long former versions can be read and the feed can be followed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// At least this long.
    pub keep: Duration,
    /// How often to look.
    pub every: Duration,
}

/// Rows deleted in one go; writers wait no longer than that takes.
const CHUNK: usize = 2_000;

impl Default for Retention {
    fn default() -> Self {
        Self { keep: Duration::from_secs(600), every: Duration::from_secs(60) }
    }
}

pub(crate) async fn run(store: Weak<Inner>, retention: Retention) {
    loop {
        let Some(inner) = store.upgrade() else { return };
        match pass(&inner, retention).await {
            Ok(()) => {}
            Err(Error::Closed) => return,
            Err(error) => {
                warn!(error = &error as &dyn std::error::Error, "could not compact; trying again later")
            }
        }
        let clock = inner.clock.clone();
        drop(inner);
        let Ok(every) = jiff::SignedDuration::try_from(retention.every) else { return };
        clock.sleep_until(clock.now().saturating_add(every).unwrap_or(jiff::Timestamp::MAX)).await;
    }
}

/// One look: remember the present, forget what is too old.
async fn pass(inner: &Inner, retention: Retention) -> Result<(), Error> {
    let horizon = i64::try_from(retention.keep.as_micros()).unwrap_or(i64::MAX);
    let reply = inner.engine.submit(Command::Maintain(Maintenance::Mark { horizon })).await?;
    match reply {
        Reply::Marked(Some(through)) => compact(inner, through).await,
        // Whatever an earlier compaction, interrupted, has left.
        _ => sweep(inner).await,
    }
}

pub(crate) async fn compact(inner: &Inner, through: Revision) -> Result<(), Error> {
    let before = inner.engine.state().await?.compacted;
    inner.engine.submit(Command::Maintain(Maintenance::Compact { through })).await?;
    if through > before {
        info!(%through, "compacted the history");
    }
    sweep(inner).await
}

async fn sweep(inner: &Inner) -> Result<(), Error> {
    while let Reply::Swept { more: true } =
        inner.engine.submit(Command::Maintain(Maintenance::Sweep { limit: CHUNK })).await?
    {}
    Ok(())
}
