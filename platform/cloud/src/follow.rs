//! What there is, and what becomes of it: for those who make something of it.

use pilothouse_arm::ResourceId;
use pilothouse_arm::dns::{RecordKind, ZONES};
use pilothouse_runtime::Chain;
use pilothouse_store::{Change, Container, Document, Error, Feed, Query, Store};
use serde_json::Value;
use tracing::warn;

use crate::resources::{self, Record};

/// Follows zones and record sets: first everything, then every change as soon as it is stored.
#[derive(Debug)]
pub struct NameFeed {
    store: Store,
    resources: Container,
    feed: Option<Feed>,
}

/// What became known.
#[derive(Clone, Debug, PartialEq)]
pub struct NameNews {
    /// Whether these are all there are, and not what has changed.
    pub is_everything: bool,
    /// Zones and record sets as ARM shows them, zones before what is in them; nothing where one is gone.
    pub resources: Vec<(ResourceId, Option<Value>)>,
    /// How far it reaches. Grows with every change, and over restarts.
    pub serial: u64,
}

impl NameFeed {
    /// Of a store opened with [`crate::catalog`] or [`crate::names_catalog`]. Nothing is read yet.
    pub fn new(store: Store) -> Self {
        Self { store, resources: resources::container(), feed: None }
    }

    /// Waits for what happens next. May be dropped while it waits: the next call starts at the same place.
    ///
    /// # Errors
    ///
    /// If the store fails. Call again.
    pub async fn next(&mut self) -> Result<NameNews, Error> {
        loop {
            let Some(feed) = &mut self.feed else { return self.list().await };
            match feed.next().await {
                Ok(batch) => {
                    let resources: Vec<_> = batch.changes.iter().filter_map(changed).collect();
                    // Most of what happens is about other things.
                    if !resources.is_empty() {
                        let serial = batch.through.number();
                        return Ok(NameNews { is_everything: false, resources, serial });
                    }
                }
                Err(Error::TooOld { .. } | Error::NotYet { .. }) => self.feed = None,
                Err(error) => return Err(error),
            }
        }
    }

    async fn list(&mut self) -> Result<NameNews, Error> {
        let query = Query::all(&self.resources);
        let mut page = self.store.list(query.clone()).await?;
        let revision = page.revision;
        let mut found = Vec::new();
        loop {
            for document in &page.documents {
                found.extend(named(document).map(|(id, shown)| (id, Some(shown))));
            }
            let Some(next) = page.next else { break };
            page = self.store.list(query.clone().from(next)).await?;
        }
        self.feed = Some(self.store.container_feed(&self.resources, revision)?);
        Ok(NameNews { is_everything: true, resources: found, serial: revision.number() })
    }
}

fn changed(change: &Change) -> Option<(ResourceId, Option<Value>)> {
    match (&change.after, &change.before) {
        (Some(after), _) => named(after).map(|(id, shown)| (id, Some(shown))),
        (None, Some(before)) => named(before).map(|(id, _)| (id, None)),
        (None, None) => None,
    }
}

/// A zone or a record set. One that cannot be read must not keep the others from being known.
fn named(document: &Document) -> Option<(ResourceId, Value)> {
    let record: Record = match document.parse() {
        Ok(record) => record,
        Err(error) => {
            warn!(id = %document.id, error = %Chain(&error), "a resource cannot be read, and is not followed");
            return None;
        }
    };
    let is_name = record.id.is_a(ZONES) || RecordKind::of_id(&record.id).is_some();
    is_name.then(|| (record.id.clone(), record.shown(&document.etag)))
}
