//! Being told of other processes' commits.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_runtime::{OnExit, Tasks};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use super::address::Address;
use super::error::classify;
use super::read::state;
use crate::engine::Scope;
use crate::wake::{Topic, Wakes};
use crate::{Error, LeaseName, Partition, Revision};

/// What a batch announces. Short names, since a notification has at most 8,000 bytes.
#[derive(Debug, Serialize, Deserialize)]
struct Notice {
    r: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    p: Vec<Partition>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    c: Vec<Arc<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    l: Vec<LeaseName>,
    /// A document that expires.
    #[serde(default)]
    e: bool,
}

/// Room for the notice in PostgreSQL's 8,000 bytes.
const LONGEST: usize = 7_500;
/// How long a lost notification can go unnoticed.
const REPAIR: Duration = Duration::from_secs(5);
/// Between two attempts to listen again.
const RECONNECT: Duration = Duration::from_millis(200);

/// The notice for a batch; an empty one means that everybody should look.
pub(super) fn notice(revision: Revision, topics: &[Topic]) -> String {
    let mut notice = Notice { r: revision.number(), p: Vec::new(), c: Vec::new(), l: Vec::new(), e: false };
    for topic in topics {
        match topic {
            Topic::Scope(Scope::Partition(partition)) => notice.p.push(partition.clone()),
            Topic::Scope(Scope::Container(container)) => notice.c.push(container.clone()),
            Topic::Lease(name) => notice.l.push(name.clone()),
            Topic::Expiry => notice.e = true,
        }
    }
    serde_json::to_string(&notice).ok().filter(|text| text.len() <= LONGEST).unwrap_or_default()
}

impl Notice {
    fn topics(self) -> Vec<Topic> {
        let partitions = self.p.into_iter().map(|partition| Topic::Scope(Scope::Partition(partition)));
        let containers = self.c.into_iter().map(|container| Topic::Scope(Scope::Container(container)));
        let leases = self.l.into_iter().map(Topic::Lease);
        let expiry = self.e.then_some(Topic::Expiry);
        partitions.chain(containers).chain(leases).chain(expiry).collect()
    }
}

/// Listens from before it returns, so that nothing committed afterwards goes unheard, until the guard is dropped.
pub(super) async fn start(
    address: &Address,
    readers: PgPool,
    wakes: Arc<Wakes>,
    tasks: &Tasks,
) -> Result<DropGuard, Error> {
    // Its own pool of one: the listener keeps the connection for good.
    let pool =
        sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_lazy_with(address.options().clone());
    let channel = address.channel();
    let listener =
        listener(&pool, &channel).await.map_err(|error| classify(address, "began to listen", error))?;
    let listening = listen(listener, pool, channel, wakes.clone());
    let done = CancellationToken::new();
    let cancelled = done.clone();
    tasks.spawn("listen", OnExit::Expendable, async move {
        cancelled.run_until_cancelled(listening).await;
        Ok(())
    });
    let cancelled = done.clone();
    tasks.spawn("look for unheard commits", OnExit::Expendable, async move {
        cancelled.run_until_cancelled(repair(readers, wakes)).await;
        Ok(())
    });
    Ok(done.drop_guard())
}

async fn listener(pool: &PgPool, channel: &str) -> Result<PgListener, sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    // A connection made again by itself would not say when it listens again.
    listener.eager_reconnect(false);
    listener.listen(channel).await?;
    Ok(listener)
}

async fn listen(mut current: PgListener, pool: PgPool, channel: String, wakes: Arc<Wakes>) {
    loop {
        while let Ok(Some(notification)) = current.try_recv().await {
            match serde_json::from_str::<Notice>(notification.payload()) {
                Ok(notice) => {
                    let revision = Revision::from_number(notice.r);
                    wakes.wake(&notice.topics());
                    wakes.saw(revision);
                }
                // Too long to be sent, or from a newer program: everybody looks.
                Err(_) => wakes.wake_all(),
            }
        }
        current = loop {
            match listener(&pool, &channel).await {
                Ok(listener) => break listener,
                Err(error) => {
                    warn!(%error, "cannot listen for commits; looking every few seconds instead");
                    tokio::time::sleep(RECONNECT).await;
                }
            }
        };
        // What was announced meanwhile is not repeated; now that this listens again, everybody looks.
        wakes.wake_all();
    }
}

/// Wakes everybody when there are commits that nobody announced.
async fn repair(readers: PgPool, wakes: Arc<Wakes>) {
    loop {
        tokio::time::sleep(REPAIR).await;
        let Ok(mut connection) = readers.acquire().await else { continue };
        let Ok(state) = state(&mut connection).await else { continue };
        if state.revision > wakes.seen() {
            debug!(revision = %state.revision, "found commits that were not announced");
            wakes.wake_all();
            wakes.saw(state.revision);
        }
    }
}
