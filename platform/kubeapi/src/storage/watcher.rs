//! One reader of changes to a collection.
//!
//! It has a place and pulls from it; nothing is queued for it, so a slow client costs no memory and is never cut off for
//! being slow. Close behind it reads the cache's history, further behind the store's.

use std::sync::Arc;

use pilothouse_store::{Document, Error, Revision};
use tokio::sync::watch;

use super::history::Event;
use super::{Storage, encoding, failed, topics};
use crate::status::Failure;

#[derive(Debug)]
pub(crate) struct Watcher {
    storage: Storage,
    topic: String,
    place: u64,
    changed: watch::Receiver<u64>,
}

/// Why a watcher cannot go on.
#[derive(Debug)]
pub(crate) enum Lost {
    /// What comes next is no longer kept anywhere.
    Expired,
    Failed(Failure),
}

impl Watcher {
    /// Follows what a topic is about (see `topics`) from what comes after a version.
    pub(crate) fn new(storage: Storage, topic: String, after: u64) -> Self {
        let changed = storage.cache.follow(&topic);
        Self { storage, topic, place: after, changed }
    }

    /// Everything up to here has been handed out.
    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// The same, after a look at how far everybody else has come meanwhile.
    pub(crate) fn advance(&mut self) -> u64 {
        if let Some((events, through)) = self.storage.cache.events(self.place, &self.topic)
            && events.is_empty()
        {
            self.place = through;
        }
        self.place
    }

    /// The next changes; waits until there are any. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Result<Vec<Arc<Event>>, Lost> {
        loop {
            // Before the look, so that what happens in between wakes the wait below.
            self.changed.mark_unchanged();
            let (events, through) = match self.storage.cache.events(self.place, &self.topic) {
                Some(found) => found,
                None => self.read_store().await?,
            };
            self.place = through;
            if !events.is_empty() {
                return Ok(events);
            }
            // What was read from the store may have to be continued there.
            if self.storage.cache.through() > self.place {
                continue;
            }
            if self.changed.changed().await.is_err() {
                return Err(Lost::Failed(Failure::unavailable("the server is being stopped")));
            }
        }
    }

    async fn read_store(&self) -> Result<(Vec<Arc<Event>>, u64), Lost> {
        let after = Revision::from_number(self.place);
        let mut feed = self.storage.store.partition_feed(&self.storage.partition, after);
        let batch = match feed.ready().await {
            Ok(batch) => batch,
            Err(Error::TooOld { .. } | Error::NotYet { .. }) => return Err(Lost::Expired),
            Err(error) => return Err(Lost::Failed(failed(error))),
        };
        let encoded = |document: &Document| encoding::encode(document.text(), document.revision.number());
        let events = batch
            .changes
            .iter()
            .filter(|change| self.storage.containers.holds(&change.container))
            .filter(|change| topics::covers(&self.topic, change.id.as_str()))
            .map(|change| {
                Arc::new(Event::new(
                    change.revision.number(),
                    change.id.as_str().into(),
                    change.before.as_ref().map(encoded),
                    change.after.as_ref().map(encoded),
                ))
            })
            .collect();
        Ok((events, batch.through.number()))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.storage.cache.leave(&self.topic);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::FutureExt as _;
    use pilothouse_runtime::Shutdown;
    use pilothouse_store::{Keyring, Location, Options, Store};

    use super::*;
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn whoever_follows_one_object_sleeps_through_everything_else_and_misses_nothing() {
        let mut options = Options::new(Location::memory(), super::super::catalog(), Shutdown::new());
        options.keyring = Some(Keyring::ephemeral().unwrap());
        let store = Store::open(options).await.unwrap();
        // Nothing is in the store: whoever had to look there would be told that his place is not known.
        let storage = Storage::load(store, "here", Metrics::default()).await.unwrap();
        let mut revision = storage.cache.through();
        let mut change = |key: &str| {
            revision += 1;
            let change = (revision, Arc::from(key), Some(Bytes::from_static(b"{}")));
            storage.cache.apply(vec![change], revision);
            revision
        };
        let start = change("secrets/shop/other");
        let follow = || Watcher::new(storage.clone(), "secrets/shop/key".to_owned(), start);
        let (mut one, mut sleeper) = (follow(), follow());
        let mut all = Watcher::new(storage.clone(), "secrets/".to_owned(), start);
        assert!(one.next().now_or_never().is_none());
        // More than is remembered.
        let last = (0..3000).map(|_| change("secrets/shop/key-2")).last().unwrap();
        assert!(one.next().now_or_never().is_none(), "it was none of its business");
        assert_eq!(one.advance(), last);
        assert!(matches!(all.next().await, Err(Lost::Expired)), "that one was left behind");
        let at = change("secrets/shop/key");
        for watcher in [&mut one, &mut sleeper] {
            let events = watcher.next().now_or_never().expect("it was woken").unwrap();
            assert_eq!(events.iter().map(|event| event.revision).collect::<Vec<_>>(), [at]);
        }
        drop((one, sleeper));
        assert!(storage.cache.events(start, "secrets/shop/key").is_none(), "nobody remembers for it");
    }
}
