//! Whether the store works, as far as this server has noticed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pilothouse_store::Error;
use tokio::time::Instant;

use super::Storage;

/// How long a failed write speaks against the store. It ends by itself because a server that is not ready may not be asked to
/// write again, and would never find out.
const MEMORY: Duration = Duration::from_secs(30);
/// How long the store may take to say where it is.
const PATIENCE: Duration = Duration::from_secs(3);

/// When the last write failed, if it did.
#[derive(Debug, Default)]
pub(super) struct Pulse(Mutex<Option<Instant>>);

impl Pulse {
    pub(super) fn wrote<T>(&self, outcome: &Result<T, Error>, now: Instant) {
        let failed = match outcome {
            // It was looked at and refused: that is work, too.
            Ok(_) | Err(Error::Conflict(_) | Error::Invalid { .. } | Error::Form { .. }) => None,
            Err(_) => Some(now),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = failed;
    }

    fn works(&self, now: Instant) -> bool {
        let failed = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_none_or(|failed| now.duration_since(failed) >= MEMORY)
    }
}

impl Storage {
    /// Whether the last write worked, unless that is long ago.
    pub(crate) fn writes_work(&self) -> bool {
        self.pulse.works(Instant::now())
    }

    /// Whether the store answers and the cache has everything that is in it. Costs a look at one row.
    pub(crate) async fn is_followed(&self) -> bool {
        matches!(tokio::time::timeout(PATIENCE, self.consistent()).await, Ok(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_runtime::Shutdown;
    use pilothouse_store::{DocumentId, Keyring, Location, Options, Precondition, Store, Transaction};
    use serde_json::json;

    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn a_failed_write_counts_until_one_works_or_it_is_long_ago() {
        let (pulse, now) = (Pulse::default(), Instant::now());
        assert!(pulse.works(now));
        pulse.wrote::<()>(&Err(Error::Closed), now);
        assert!(!pulse.works(now));
        assert!(pulse.works(now + MEMORY));
        pulse.wrote(&Ok(()), now);
        assert!(pulse.works(now));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_that_does_not_follow_is_noticed() {
        let shutdown = Shutdown::new();
        let mut options = Options::new(Location::memory(), super::super::catalog(), shutdown.clone());
        options.keyring = Some(Keyring::ephemeral().unwrap());
        let store = Store::open(options).await.unwrap();
        let storage = Storage::load(store.clone(), "here", Metrics::default()).await.unwrap();
        assert!(storage.is_followed().await);

        let mut transaction = Transaction::new(storage.partition.clone());
        let id = DocumentId::try_new("configmaps/default/a").unwrap();
        let container = &storage.containers.objects;
        transaction.put(container, id, Precondition::Absent, &json!({ "metadata": {} })).unwrap();
        store.commit(&transaction).await.unwrap();
        assert!(!storage.is_followed().await);

        let following = storage.clone().follow(shutdown);
        tokio::select! {
            ended = following => panic!("{ended:?}"),
            followed = storage.is_followed() => assert!(followed),
        }
    }
}
