//! Whether a page far into a list costs as much as its first.

use anyhow::{Context as _, ensure};
use pilothouse_store::{Continue, Query, Store};
use tokio::time::Instant;

use super::document;
use super::engine;
use super::existing::{Existing, PARTITION};
use crate::harness::{Budget, Figure, Report, in_turns};

/// The page that is compared with the first.
const FAR: usize = 1000;
/// PostgreSQL settles on a plan for a statement after it has run a few times.
const WARM_UP: usize = 8;

pub(super) async fn measure(existing: &Existing<'_>, report: &mut Report) -> anyhow::Result<()> {
    let store = engine::open(&existing.location).await?;
    let (container, partition) = (document::indexed(), document::partition(PARTITION)?);
    let limit = existing.count / FAR;
    for (what, query) in [
        ("a partition", Query::partition(&container, &partition)),
        ("all partitions", Query::all(&container)),
        (
            "an index",
            Query::partition(&container, &partition).matching(document::BY_COLOUR, document::COLOUR),
        ),
        ("a partition in the past", Query::partition(&container, &partition).at(existing.past)),
        (
            "an index in the past",
            Query::partition(&container, &partition)
                .matching(document::BY_COLOUR, document::COLOUR)
                .at(existing.past),
        ),
    ] {
        let first = query.limit(limit);
        let far = first.clone().from(walk(&store, &first, limit).await?);
        for _ in 0..WARM_UP {
            time(&store, first.clone(), limit).await?;
            time(&store, far.clone(), limit).await?;
        }
        let compared = in_turns(
            existing.size.pick(200, 10),
            async |_| time(&store, far.clone(), limit).await,
            async |_| time(&store, first.clone(), limit).await,
        )
        .await?;
        report.figure(
            Figure::new(
                format!("{}, list of {what}, page {FAR} / page 1", existing.engine),
                compared.ratio(),
                "×",
            )
            .budget(Budget::AtMost(1.5))
            .note(format!(
                "{:.2} ms / {:.2} ms, {limit} a page",
                compared.first.median(),
                compared.second.median()
            )),
        );
    }
    store.close().await;
    Ok(())
}

/// Goes through a list; where its far page begins. Where a list goes on does not depend on the size of the pages
/// that led there, so these are larger.
async fn walk(store: &Store, first: &Query, limit: usize) -> anyhow::Result<Continue> {
    const TOGETHER: usize = 37;
    const { assert!((FAR - 1).is_multiple_of(TOGETHER), "the far page begins where one of these ends") };
    let larger = first.clone().limit(limit * TOGETHER);
    let mut next = None;
    for _ in 0..(FAR - 1) / TOGETHER {
        let query = match next.take() {
            Some(next) => larger.clone().from(next),
            None => larger.clone(),
        };
        next = store.list(query).await?.next;
        ensure!(next.is_some(), "the list has fewer than {FAR} pages");
    }
    next.context("a far page is not the first")
}

/// Milliseconds for one page.
async fn time(store: &Store, query: Query, limit: usize) -> anyhow::Result<f64> {
    let start = Instant::now();
    let page = store.list(query).await?;
    let elapsed = start.elapsed();
    ensure!(
        page.documents.len() == limit,
        "a page has {} documents instead of {limit}",
        page.documents.len()
    );
    Ok(elapsed.as_secs_f64() * 1e3)
}
