//! What this replica does, of what all replicas do together.
//!
//! A replica says that it is there by a document that goes by itself unless it is renewed. Every replica follows those
//! documents, and all come to the same answer whose a consumer is: of all replicas, the one with the highest number for it
//! (so one that comes or goes moves only its own share). For a moment two may differ. Then a bundle is sent twice,
//! which does no harm, or waits until they agree: whoever gains consumers looks at everything that is theirs.

use std::collections::BTreeSet;
use std::time::Duration;

use pilothouse_runtime::{Chain, OnExit, TaskError, Tasks};
use pilothouse_store::{DocumentId, Error as StoreError, Precondition};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::server::records::Records;

/// How long a replica counts that is not heard of, and how often it says that it is there.
const TIME_TO_LIVE: Duration = Duration::from_secs(10);
const RENEWAL: Duration = Duration::from_secs(3);

/// A replica that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Replica {}

/// Which consumers are this replica's. A cheap handle.
#[derive(Clone, Debug)]
pub(super) enum Share {
    /// There are no others.
    All,
    /// Those of this one, among these.
    Of { own: String, members: watch::Receiver<BTreeSet<String>> },
}

// === impl Share ===

impl Share {
    /// Joins the others under this name, until shutdown.
    pub(super) fn join(own: String, records: Records, tasks: &Tasks) -> Self {
        let (members_tx, members) = watch::channel(BTreeSet::new());
        let shutdown = tasks.shutdown().clone();
        let name = own.clone();
        tasks.spawn("replicas", OnExit::StopProcess, async move {
            tokio::select! {
                () = shutdown.requested() => {}
                ended = follow(&name, &records, &members_tx) => ended?,
            }
            // The others need not wait for it to be missed.
            leave(&name, &records).await;
            Ok(())
        });
        Self::Of { own, members }
    }

    pub(super) fn has(&self, consumer: &str) -> bool {
        match self {
            Self::All => true,
            Self::Of { own, members } => {
                owner(members.borrow().iter(), consumer).is_some_and(|owner| owner == own)
            }
        }
    }

    /// Waits until the replicas are others than when this handle last looked. Never returns where there are no others.
    pub(super) async fn changed(&mut self) {
        match self {
            Self::All => std::future::pending().await,
            Self::Of { members, .. } => {
                if members.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Whether so many replicas are there, this one among them; for who waits for that.
    pub(super) fn members(&self) -> Option<BTreeSet<String>> {
        match self {
            Self::All => None,
            Self::Of { members, .. } => Some(members.borrow().clone()),
        }
    }
}

/// Keeps this replica's document, and the list of all of them.
async fn follow(
    own: &str,
    records: &Records,
    members: &watch::Sender<BTreeSet<String>>,
) -> Result<(), TaskError> {
    let mut renewed = Instant::now();
    let mut renewal = tokio::time::interval(RENEWAL);
    loop {
        let revision = records.store.revision().await;
        let mut feed = match revision {
            Ok(revision) => records.store.container_feed(&records.replicas, revision)?,
            Err(error) => {
                pause(own, &error, renewed, members).await;
                continue;
            }
        };
        let mut look = true;
        loop {
            if look {
                match records.replica_names().await {
                    Ok(found) => tell(own, found, members),
                    Err(error) => pause(own, &error, renewed, members).await,
                }
            }
            look = tokio::select! {
                _ = renewal.tick() => {
                    match renew(own, records).await {
                        Ok(()) => renewed = Instant::now(),
                        Err(error) => pause(own, &error, renewed, members).await,
                    }
                    // The first look was before the first renewal, and one that was paused may have missed something.
                    !members.borrow().contains(own)
                }
                batch = feed.next() => match batch {
                    // A renewal is a change of a document that stays.
                    Ok(batch) => batch.changes.iter().any(|change| change.before.is_none() || change.after.is_none()),
                    Err(StoreError::TooOld { .. } | StoreError::NotYet { .. }) => break,
                    Err(error) => {
                        pause(own, &error, renewed, members).await;
                        true
                    }
                },
            };
        }
    }
}

fn tell(own: &str, found: BTreeSet<String>, members: &watch::Sender<BTreeSet<String>>) {
    members.send_if_modified(|known| {
        let changed = *known != found;
        if changed {
            info!(replica = own, replicas = ?found, "the replicas that share the work");
            *known = found;
        }
        changed
    });
}

/// The store is not there for a moment. Whoever could not say for long enough that it is there counts itself out, as
/// the others do.
async fn pause(own: &str, error: &StoreError, renewed: Instant, members: &watch::Sender<BTreeSet<String>>) {
    warn!(replica = own, error = %Chain(error), "cannot say that this replica is there");
    if renewed.elapsed() >= TIME_TO_LIVE {
        tell(own, BTreeSet::new(), members);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn renew(own: &str, records: &Records) -> Result<(), StoreError> {
    let mut transaction = records.transaction();
    let id = DocumentId::try_new(own)?;
    transaction.put_expiring(&records.replicas, id, Precondition::Any, &Replica {}, TIME_TO_LIVE)?;
    records.store.commit(&transaction).await.map(drop)
}

async fn leave(own: &str, records: &Records) {
    let Ok(id) = DocumentId::try_new(own) else { return };
    let left = records.store.delete(&records.replicas, &records.partition, id, Precondition::Any);
    // If it cannot be told, it is missed in a few seconds.
    let _ = tokio::time::timeout(RENEWAL, left).await;
}

/// Whose a consumer is.
fn owner<'a>(members: impl Iterator<Item = &'a String>, consumer: &str) -> Option<&'a String> {
    members.max_by_key(|member| (number(member, consumer), member.as_str().to_owned()))
}

/// Must be the same in every build: FNV-1a, and then mixed, since names differ in their last letters only.
fn number(member: &str, consumer: &str) -> u64 {
    let bytes = member.bytes().chain([0]).chain(consumer.bytes());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn one_that_goes_leaves_the_shares_of_the_others_alone() {
        let (three, two) =
            (names(&["maestro-0", "maestro-1", "maestro-2"]), names(&["maestro-0", "maestro-2"]));
        let mut counts = [0; 3];
        for number in 0..3_000 {
            let consumer = format!("hcp-underlay-uksouth-mgmt-{number}");
            let before = owner(three.iter(), &consumer).unwrap();
            counts[three.iter().position(|name| name == before).unwrap()] += 1;
            let after = owner(two.iter(), &consumer).unwrap();
            assert!(before == after || before == "maestro-1", "{consumer} moved from {before} to {after}");
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
        assert_eq!(owner([].iter(), "c"), None);
    }
}
