//! Which bundles a list shows.
//!
//! A search goes through the store a few bundles at a time and keeps no more of them than the page that was asked for. What
//! it found is remembered for a while, so that further pages are of the same moment as the first one and cost no search:
//! whoever reads page after page sees every bundle that was there when it began, once.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use pilothouse_store::{Error as StoreError, Revision};
use tokio::time::Instant;

use super::list::ListQuery;
use crate::server::error::Refusal;
use crate::server::records::{Records, Resource};
use crate::server::search::{self, Expression, Field};

/// How long what was found is remembered, and of how many lists.
const REMEMBERED: Duration = Duration::from_secs(60);
const LISTS: usize = 32;
/// Bundles that are read at once where they are known by id.
const CONCURRENCY: usize = 16;

/// What was found lately. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Found(Arc<Mutex<VecDeque<Arc<Snapshot>>>>);

/// One list, as of one moment.
#[derive(Debug)]
struct Snapshot {
    query: (Option<String>, Vec<String>),
    revision: Revision,
    ids: Vec<String>,
    made: Instant,
}

/// What is needed of a bundle to put it in its place.
struct Entry {
    id: String,
    /// What it has in the columns that decide about the order.
    keys: Vec<(String, String)>,
}

/// How many bundles are found, and those of the page that was asked for.
pub(super) async fn find(
    records: &Records,
    found: &Found,
    query: &ListQuery,
    columns: &[&str],
    column: fn(&Resource, &str) -> String,
    row: fn(&Resource) -> serde_json::Value,
) -> Result<(usize, Vec<Resource>), Refusal> {
    let range = query.range();
    if range.start > 0
        && let Some(snapshot) = found.get(query)
    {
        match page(records, &snapshot, range.clone()).await {
            Ok(items) => return Ok((snapshot.ids.len(), items)),
            // It was so long ago that the store has forgotten: it is looked for again.
            Err(StoreError::TooOld { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    query.check_order(columns)?;
    let search = query.search.as_deref().map(search::parse).transpose()?;
    let index = search.as_ref().and_then(index);
    let matching = index.as_ref().map(|(name, value)| (*name, value.as_str()));
    let ordered = query.order_columns();
    let (mut entries, mut items) = (Vec::new(), Vec::new());
    let revision = records
        .scan(matching, |resource| {
            if search.as_ref().is_some_and(|search| !search.selects(&row(&resource))) {
                return;
            }
            let keys = ordered.iter().map(|name| ((*name).to_owned(), column(&resource, name))).collect();
            let position = entries.len();
            entries.push(Entry { id: resource.id.clone(), keys });
            // By id, unless somebody asks for another order.
            if ordered.is_empty() && range.contains(&position) {
                items.push(resource);
            }
        })
        .await?;
    let key = |entry: &Entry, name: &str| {
        let found = entry.keys.iter().find(|(column, _)| column == name);
        found.map(|(_, key)| key.clone()).unwrap_or_default()
    };
    query.sort(&mut entries, columns, key)?;
    let snapshot = Arc::new(Snapshot {
        query: query.identity(),
        revision,
        ids: entries.into_iter().map(|entry| entry.id).collect(),
        made: Instant::now(),
    });
    if !ordered.is_empty() {
        items = page(records, &snapshot, range).await?;
    }
    let total = snapshot.ids.len();
    if total > query.range().end {
        found.put(snapshot);
    }
    Ok((total, items))
}

/// A part of what was found, as it was then.
async fn page(
    records: &Records,
    snapshot: &Snapshot,
    range: Range<usize>,
) -> Result<Vec<Resource>, StoreError> {
    let end = range.end.min(snapshot.ids.len());
    let ids = snapshot.ids[range.start.min(end)..end].to_vec();
    futures::stream::iter(ids)
        .map(|id| {
            let (records, at) = (records.clone(), snapshot.revision);
            async move { records.resource_at(&id, at).await }
        })
        .buffered(CONCURRENCY)
        .try_filter_map(|resource| async { Ok(resource) })
        .try_collect()
        .await
}

/// The index that leaves the least to look at.
fn index(search: &Expression) -> Option<(&'static str, String)> {
    let labels = Field::new("payload", &["metadata", "labels"]);
    if let Some((name, value)) = search.requires_below(&labels) {
        return Some(("label", format!("{name}={value}")));
    }
    let candidates = [("consumer", Field::new("consumer_name", &[])), ("source", Field::new("source", &[]))];
    candidates.iter().find_map(|(name, field)| Some((*name, search.requires(field)?.to_owned())))
}

// === impl Found ===

impl Found {
    fn get(&self, query: &ListQuery) -> Option<Arc<Snapshot>> {
        let wanted = query.identity();
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The latest of those who began to read.
        let found = known.iter().rev().find(|snapshot| snapshot.query == wanted);
        found.filter(|snapshot| snapshot.made.elapsed() < REMEMBERED).cloned()
    }

    fn put(&self, snapshot: Arc<Snapshot>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|other| other.made.elapsed() < REMEMBERED && other.query != snapshot.query);
        known.push_back(snapshot);
        if known.len() > LISTS {
            known.pop_front();
        }
    }
}
