//! Keeping the cache up to date.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pilothouse_runtime::{Chain, Shutdown, TaskError};
use pilothouse_store::{Batch, Change, Document, Error, Query, Revision};
use tracing::warn;

use super::{Storage, encoding};

/// How long to wait before the store is asked again after it could not be reached.
const PAUSE: Duration = Duration::from_millis(500);

impl Storage {
    /// Fills the cache with everything there is, of one instant.
    pub(super) async fn reload(&self) -> Result<(), Error> {
        let mut objects = BTreeMap::new();
        let mut revision = None;
        for container in [&self.containers.objects, &self.containers.secrets] {
            let mut next = None;
            loop {
                let mut query = Query::partition(container, &self.partition);
                if let Some(revision) = revision {
                    query = query.at(revision);
                }
                if let Some(next) = next.take() {
                    query = query.from(next);
                }
                let page = self.store.list(query).await?;
                revision = Some(page.revision);
                objects.extend(
                    page.documents
                        .iter()
                        .map(|document| (Arc::from(document.id.as_str()), encoded(document))),
                );
                match page.next {
                    Some(more) => next = Some(more),
                    None => break,
                }
            }
        }
        self.cache.reset(objects, revision.unwrap_or(Revision::ZERO).number());
        Ok(())
    }

    pub(super) fn apply(&self, batch: Batch) {
        let changes = batch
            .changes
            .into_iter()
            .filter(|change| self.containers.holds(&change.container))
            .map(|change| {
                let Change { revision, id, after, .. } = change;
                (revision.number(), Arc::from(id.as_str()), after.as_ref().map(encoded))
            })
            .collect();
        self.cache.apply(changes, batch.through.number());
    }
}

pub(super) async fn run(storage: Storage, shutdown: Shutdown) -> Result<(), TaskError> {
    let mut feed = storage.feed();
    loop {
        let batch = tokio::select! {
            batch = feed.next() => batch,
            () = storage.cache.hurried.notified() => feed.ready().await,
            () = shutdown.requested() => return Ok(()),
        };
        match batch {
            Ok(batch) => storage.apply(batch),
            Err(Error::Closed) if shutdown.is_requested() => return Ok(()),
            Err(error) if error.is_retryable() => {
                warn!(error = %Chain(&error), "the store's feed is not available; asking again");
                tokio::time::sleep(PAUSE).await;
            }
            Err(Error::TooOld { .. } | Error::NotYet { .. }) => {
                warn!("the store's history was cut; reading everything again");
                storage.reload().await?;
                feed = storage.feed();
            }
            Err(error) => return Err(error.into()),
        }
    }
}

impl Storage {
    fn feed(&self) -> pilothouse_store::Feed {
        self.store.partition_feed(&self.partition, Revision::from_number(self.cache.through()))
    }
}

fn encoded(document: &Document) -> Bytes {
    encoding::encode(document.text(), document.revision.number())
}
