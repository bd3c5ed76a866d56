//! How long after a commit a waiting reader has the change.
//!
//! Two times are taken for each commit, both up to the moment the reader's `next` returned:
//!
//! - **after the commit**: from the moment `commit` returned to the writer. The reader may be faster than that,
//!   since it is woken at the same time; then it is zero. This is what the budget is on.
//! - **from the call**: from just before `commit` was called. This has the durable write in it.

use std::time::Duration;

use anyhow::{Context as _, bail};
use pilothouse_store::{Feed, Partition, Revision, Store};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{self, Instant};

use super::document::{self, Document};
use super::engine::{self, Engine};
use crate::harness::{Budget, Figure, Report, Samples, Size};

/// A reader that tells when it got what.
struct Reader {
    partition: Partition,
    seen: mpsc::UnboundedReceiver<(Revision, Instant)>,
    latency: Latency,
}

/// Milliseconds.
#[derive(Debug, Default)]
struct Latency {
    after_commit: Samples,
    from_call: Samples,
}

/// So long before each commit nothing happens: a reader has gone back to waiting, and is not found reading.
const PAUSE: Duration = Duration::from_millis(4);
/// A change that takes longer than this does not come.
const LIMIT: Duration = Duration::from_secs(30);
/// The first commits open connections and prepare statements.
const WARM_UP: usize = 10;

pub(super) async fn sqlite(engine: Engine<'_>, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let store = engine::open(&engine.fresh("feed")?).await?;
    let [latency] = follow(&store, [&store], size.pick(2000, 25)).await?;
    store.close().await;
    present("SQLite, feed", &latency, Some(2.0), report);
    Ok(())
}

/// A reader of the same process is woken directly. One that opened the store by itself, as another process would,
/// hears of commits through the database.
pub(super) async fn postgres(engine: Engine<'_>, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let location = engine.fresh("feed")?;
    let (store, other) = (engine::open(&location).await?, engine::open(&location).await?);
    let [near, far] = follow(&store, [&store, &other], size.pick(2000, 25)).await?;
    other.close().await;
    store.close().await;
    present("PostgreSQL, feed of the same process", &near, None, report);
    present("PostgreSQL, feed of another process", &far, Some(10.0), report);
    Ok(())
}

fn present(name: &str, latency: &Latency, budget: Option<f64>, report: &mut Report) {
    let Latency { after_commit, from_call } = latency;
    report.figure(Figure::new(format!("{name}, after the commit, p50"), after_commit.median(), "ms"));
    let worst = Figure::new(format!("{name}, after the commit, p99"), after_commit.percentile(99.0), "ms")
        .note(format!("{} commits, longest {:.2} ms", after_commit.len(), after_commit.largest()));
    report.figure(match budget {
        Some(budget) => worst.budget(Budget::Below(budget)),
        None => worst,
    });
    report.figure(
        Figure::new(format!("{name}, from the call, p99"), from_call.percentile(99.0), "ms")
            .note(format!("p50 {:.2} ms; includes the durable write", from_call.median())),
    );
}

/// Commits to `writer`, for one reader after the other; each follows a partition of its own, so that a commit wakes
/// only one of them.
async fn follow<const READERS: usize>(
    writer: &Store,
    readers: [&Store; READERS],
    commits: usize,
) -> anyhow::Result<[Latency; READERS]> {
    let mut tasks = JoinSet::new();
    let mut following = Vec::new();
    for (number, store) in readers.into_iter().enumerate() {
        let partition = document::partition(&format!("reader-{number}"))?;
        let feed = store.partition_feed(&partition, store.revision().await?);
        let (tell, seen) = mpsc::unbounded_channel();
        tasks.spawn(read(feed, tell));
        following.push(Reader { partition, seen, latency: Latency::default() });
    }
    let writer = writer.clone();
    // On a worker like the readers, as a service's tasks would be.
    let mut writing = JoinSet::new();
    writing.spawn(async move {
        for number in 0..WARM_UP + commits {
            for reader in &mut following {
                commit(&writer, reader, number).await?;
            }
        }
        anyhow::Ok(following)
    });
    let following = tokio::select! {
        Some(written) = writing.join_next() => written??,
        Some(ended) = tasks.join_next() => bail!("a reader ended: {:?}", ended?),
        else => bail!("nobody writes"),
    };
    following
        .into_iter()
        .map(|reader| reader.latency)
        .collect::<Vec<_>>()
        .try_into()
        .ok()
        .context("every reader has its latency")
}

async fn read(mut feed: Feed, tell: mpsc::UnboundedSender<(Revision, Instant)>) -> anyhow::Result<()> {
    loop {
        let batch = feed.next().await?;
        tell.send((batch.through, Instant::now()))?;
    }
}

async fn commit(writer: &Store, reader: &mut Reader, number: usize) -> anyhow::Result<()> {
    time::sleep(PAUSE).await;
    let (id, document) = (document::id(format!("{number:08}"))?, Document::new(number));
    let called = Instant::now();
    let committed = writer.create(&document::plain(), &reader.partition, id, &document).await?;
    let returned = Instant::now();
    let (revision, got) = time::timeout(LIMIT, reader.seen.recv())
        .await
        .context("a waiting reader was not woken by a commit")?
        .context("the reader is gone")?;
    anyhow::ensure!(revision >= committed.revision, "the reader was woken before the commit");
    if number >= WARM_UP {
        reader.latency.after_commit.push_milliseconds(got.saturating_duration_since(returned));
        reader.latency.from_call.push_milliseconds(got.saturating_duration_since(called));
    }
    Ok(())
}
