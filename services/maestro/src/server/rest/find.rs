//! Lists of bundles.
//!
//! What is wanted without a search, or by one that an index answers, costs a look at the index and the bundles of the page. Any
//! other search goes through the store a few bundles at a time, without opening what is sealed in them, and keeps their ids.
//! What was found is remembered for a while, so that further pages are of the same moment as the first one and cost no search:
//! whoever reads page after page sees every bundle that was there when it began, once.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use pilothouse_store::{DocumentId, Error as StoreError, Revision};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::list::ListQuery;
use crate::server::error::Refusal;
use crate::server::records::{Records, Seen};
use crate::server::search::{self, Comparison, Expression, Field, Literal};

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
    ids: Vec<DocumentId>,
    /// They are all that the store has in its own order, or an index under a value.
    run: Option<Matching>,
    made: Instant,
}

/// An index and a value; all bundles without.
type Matching = Option<(&'static str, String)>;

/// What is needed of a bundle to put it in its place.
struct Entry {
    id: DocumentId,
    /// What it has in the columns that decide about the order.
    keys: Vec<(String, String)>,
}

/// How bundles are looked at.
pub(super) struct Look<'a> {
    /// What they can be ordered by.
    pub(super) columns: &'a [&'a str],
    pub(super) column: fn(&Seen<'_>, &str) -> String,
    /// What a search sees.
    pub(super) row: fn(&Seen<'_>) -> serde_json::Value,
}

/// Shows the bundles of the page that was asked for, in order, and the manifests of each as JSON; how many are found in all.
pub(super) async fn find(
    records: &Records,
    found: &Found,
    query: &ListQuery,
    look: &Look<'_>,
    mut show: impl FnMut(&Seen<'_>, Option<&str>),
) -> Result<usize, Refusal> {
    let range = query.range();
    if range.start > 0
        && let Some(snapshot) = found.get(query)
    {
        match page(records, &snapshot, range.clone(), &mut show).await {
            Ok(()) => return Ok(snapshot.ids.len()),
            // It was so long ago that the store has forgotten: it is looked for again.
            Err(StoreError::TooOld { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let snapshot = Arc::new(search(records, query, look).await?);
    let total = snapshot.ids.len();
    if total > range.end {
        found.put(Arc::clone(&snapshot));
    }
    page(records, &snapshot, range, &mut show).await?;
    Ok(total)
}

/// All that a query finds.
async fn search(records: &Records, query: &ListQuery, look: &Look<'_>) -> Result<Snapshot, Refusal> {
    query.check_order(look.columns)?;
    let search = query.search.as_deref().map(search::parse).transpose()?;
    let index = search.as_ref().and_then(index);
    let matching = index.as_ref().map(|(name, value)| (*name, value.as_str()));
    let ordered = query.order_columns();
    let (query_identity, made) = (query.identity(), Instant::now());
    if ordered.is_empty() && search.as_ref().is_none_or(is_answered_by_index) {
        let (ids, revision) = records.ids(matching).await?;
        return Ok(Snapshot { query: query_identity, revision, ids, run: Some(index), made });
    }
    let mut entries = Vec::new();
    let show = |resource: Seen<'_>| {
        if search.as_ref().is_some_and(|search| !search.selects(&(look.row)(&resource))) {
            return;
        }
        let keys = ordered.iter().map(|name| ((*name).to_owned(), (look.column)(&resource, name))).collect();
        // What is stored under an id has one.
        entries.extend(DocumentId::try_new(&resource.id).ok().map(|id| Entry { id, keys }));
    };
    let revision = records.scan(matching, show).await?;
    let key = |entry: &Entry, name: &str| {
        let found = entry.keys.iter().find(|(column, _)| column == name);
        found.map(|(_, key)| key.clone()).unwrap_or_default()
    };
    query.sort(&mut entries, look.columns, key)?;
    let ids = entries.into_iter().map(|entry| entry.id).collect();
    Ok(Snapshot { query: query_identity, revision, ids, run: None, made })
}

/// Shows a part of what was found, as it was then.
async fn page(
    records: &Records,
    snapshot: &Snapshot,
    range: Range<usize>,
    show: &mut impl FnMut(&Seen<'_>, Option<&str>),
) -> Result<(), StoreError> {
    let end = range.end.min(snapshot.ids.len());
    let start = range.start.min(end);
    if let Some(index) = &snapshot.run {
        let matching = index.as_ref().map(|(name, value)| (*name, value.as_str()));
        let behind = start.checked_sub(1).map(|before| &snapshot.ids[before]);
        return records.show(matching, snapshot.revision, behind, end - start, show).await;
    }
    let ids = snapshot.ids[start..end].to_vec();
    futures::stream::iter(ids)
        .map(|id| {
            let (records, at) = (records.clone(), snapshot.revision);
            async move { records.resource_at(&id, at).await }
        })
        .buffered(CONCURRENCY)
        .try_for_each(|document| {
            futures::future::ready(document.map_or(Ok(()), |document| {
                let seen: Seen<'_> = document.view()?;
                show(&seen, seen.payload.data().map(RawValue::get));
                Ok(())
            }))
        })
        .await
}

const CONSUMER: (&str, &str) = ("consumer", "consumer_name");
const SOURCE: (&str, &str) = ("source", "source");

/// The index that leaves the least to look at.
fn index(search: &Expression) -> Matching {
    let labels = Field::new("payload", &["metadata", "labels"]);
    if let Some((name, value)) = search.requires_below(&labels) {
        return Some(("label", format!("{name}={value}")));
    }
    let candidates = [CONSUMER, SOURCE].into_iter();
    candidates
        .filter_map(|(name, column)| Some((name, search.requires(&Field::new(column, &[]))?.to_owned())))
        .next()
}

/// Whether the index that is taken finds what is searched for, and nothing else.
fn is_answered_by_index(search: &Expression) -> bool {
    let Expression::Compare { field, comparison: Comparison::Equal, value: Literal::Text(_) } = search else {
        return false;
    };
    [CONSUMER, SOURCE].iter().any(|(_, column)| *field == Field::new(column, &[]))
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
