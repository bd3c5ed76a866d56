//! A database with many documents: how long it takes to open, and to read one of them.

use anyhow::Context as _;
use pilothouse_store::{Location, Precondition, Revision, Store, Transaction};
use tokio::time::Instant;

use super::document::{self, Document};
use super::engine::{self, Engine};
use crate::harness::{Budget, Figure, Progress, Report, Samples, Size};

/// A database that was filled and closed.
#[derive(Debug)]
pub(super) struct Existing<'a> {
    pub(super) engine: Engine<'a>,
    pub(super) size: Size,
    pub(super) location: Location,
    /// How many documents there are, all in one partition.
    pub(super) count: usize,
    /// Before some of the documents were replaced.
    pub(super) past: Revision,
}

pub(super) const PARTITION: &str = "existing";

/// Documents written in one transaction.
const TOGETHER: usize = 1000;
/// One document in so many is replaced, so that the past is not the present.
const REPLACED: usize = 10;
/// Stepping by this visits all of the first 2,000 or 100,000 numbers, far from in order: it shares no divisor
/// with them.
const STEP: usize = 37_199;

impl<'a> Existing<'a> {
    pub(super) async fn fill(engine: Engine<'a>, size: Size) -> anyhow::Result<Self> {
        let count = size.pick(100_000, 2_000);
        Progress.say(&format!("filling {engine} with {count} documents"));
        let location = engine.fresh("existing")?;
        let store = engine::open(&location).await?;
        let numbers: Vec<usize> = (0..count).map(|number| number * STEP % count).collect();
        let start = Instant::now();
        for numbers in numbers.chunks(TOGETHER) {
            put(&store, numbers).await?;
        }
        let rate = f64::from(u32::try_from(count)?) / start.elapsed().as_secs_f64();
        Progress.say(&format!("  {rate:.0} documents a second in transactions of {TOGETHER}"));
        let past = store.revision().await?;
        let replaced: Vec<usize> = numbers.into_iter().filter(|number| number % REPLACED == 0).collect();
        for numbers in replaced.chunks(TOGETHER) {
            put(&store, numbers).await?;
        }
        store.close().await;
        Ok(Self { engine, size, location, count, past })
    }

    pub(super) async fn open_again(&self, report: &mut Report) -> anyhow::Result<()> {
        let mut times = Samples::default();
        for _ in 0..self.size.pick(25, 5) {
            let start = Instant::now();
            let store = engine::open(&self.location).await?;
            times.push_milliseconds(start.elapsed());
            store.close().await;
        }
        let (count, opens) = (self.count, times.len());
        report.figure(
            Figure::new(format!("{}, opening an existing database", self.engine), times.median(), "ms")
                .budget(Budget::Below(50.0))
                .note(format!("{count} documents; {opens} times, longest {:.1} ms", times.largest())),
        );
        Ok(())
    }

    pub(super) async fn read(&self, report: &mut Report) -> anyhow::Result<()> {
        let store = engine::open(&self.location).await?;
        let (container, partition) = (document::indexed(), document::partition(PARTITION)?);
        let mut times = Samples::default();
        for number in 0..self.size.pick(10_000, 200) {
            let id = document::id(name(number * STEP % self.count))?;
            let start = Instant::now();
            let found = store.get(&container, &partition, &id).await?;
            times.push_milliseconds(start.elapsed());
            found.with_context(|| format!("document {id} is missing"))?;
        }
        store.close().await;
        let note = format!("one reader, {} documents in no order", times.len());
        let figure = |what: &str, percent| {
            Figure::new(format!("{}, point read, {what}", self.engine), times.percentile(percent), "ms")
        };
        report.figure(figure("p50", 50.0).note(note));
        report.figure(figure("p99", 99.0));
        Ok(())
    }
}

async fn put(store: &Store, numbers: &[usize]) -> anyhow::Result<()> {
    let mut transaction = Transaction::new(document::partition(PARTITION)?);
    for number in numbers {
        let id = document::id(name(*number))?;
        transaction.put(&document::indexed(), id, Precondition::Any, &Document::new(*number))?;
    }
    store.commit(&transaction).await?;
    Ok(())
}

fn name(number: usize) -> String {
    format!("document-{number:08}")
}
