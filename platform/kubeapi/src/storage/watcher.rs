//! One reader of changes to a collection.
//!
//! It has a place and pulls from it; nothing is queued for it, so a slow client costs no memory and is never cut off for
//! being slow. Close behind it reads the cache's history, further behind the store's.

use std::sync::Arc;

use pilothouse_store::{Document, Error, Revision};
use tokio::sync::watch;

use super::history::Event;
use super::{Storage, encoding, failed};
use crate::status::Failure;

#[derive(Debug)]
pub(crate) struct Watcher {
    storage: Storage,
    prefix: String,
    place: u64,
    through: watch::Receiver<u64>,
}

/// Why a watcher cannot go on.
#[derive(Debug)]
pub(crate) enum Lost {
    /// What comes next is no longer kept anywhere.
    Expired,
    Failed(Failure),
}

impl Watcher {
    /// Follows a collection from what comes after a version.
    pub(crate) fn new(storage: Storage, prefix: String, after: u64) -> Self {
        let through = storage.cache.subscribe();
        Self { storage, prefix, place: after, through }
    }

    /// Everything up to here has been handed out.
    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// The next changes; waits until there are any. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Result<Vec<Arc<Event>>, Lost> {
        loop {
            // Before the look, so that what happens in between wakes the wait below.
            self.through.mark_unchanged();
            let (events, through) = match self.storage.cache.events(self.place, &self.prefix) {
                Some(found) => found,
                None => self.read_store().await?,
            };
            self.place = through;
            if !events.is_empty() {
                return Ok(events);
            }
            if self.storage.cache.through() > self.place {
                continue;
            }
            if self.through.changed().await.is_err() {
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
            .filter(|change| change.id.as_str().starts_with(&self.prefix))
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
