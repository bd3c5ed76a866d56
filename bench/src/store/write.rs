//! How many documents a second can be created, by one writer and by many at once.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_store::Store;
use pilothouse_test_support::postgres::Server;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::document::{self, Document, Ids};
use super::engine::{self, Engine};
use super::pgbench::Pgbench;
use crate::harness::{Budget, Figure, Folder, Progress, Report, Samples, Size, flush_rate, in_turns};

/// How many write at once.
pub(super) const MANY: usize = 64;

pub(super) async fn sqlite(folder: &Folder, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let mut flushes = Samples::default();
    let mut figures = Vec::new();
    for (order, ids) in [("in order", Arc::new(Ids::in_order())), ("at random", Arc::new(Ids::at_random()))] {
        let store = engine::open(&Engine::Sqlite(folder).fresh(&format!("write {order}"))?).await?;
        let (rounds, duration) = size.pick((6, Duration::from_secs(2)), (1, Duration::from_millis(400)));
        let compared = in_turns(
            rounds,
            async |_| rate(&store, MANY, &ids, duration).await,
            async |_| {
                flushes.push(flush_rate(folder, duration / 4)?);
                rate(&store, 1, &ids, duration).await
            },
        )
        .await?;
        store.close().await;
        let name = |what: &str| format!("SQLite, creates with ids {order}, {what}");
        figures.push(Figure::new(name("1 writer"), compared.second.median(), "1/s"));
        figures.push(Figure::new(name(&format!("{MANY} writers")), compared.first.median(), "1/s"));
        figures.push(
            Figure::new(name(&format!("{MANY} writers / 1")), compared.ratio(), "×")
                .budget(Budget::AtLeast(15.0))
                .note(compared.spread()),
        );
    }
    report.figure(
        Figure::new("disk, append 4 KiB and fdatasync", flushes.median(), "1/s").note("for orientation"),
    );
    figures.into_iter().for_each(|figure| report.figure(figure));
    Ok(())
}

pub(super) async fn postgres(
    server: &Server,
    folder: &Folder,
    size: Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    let store = engine::open(&Engine::Postgres(server).fresh("write")?).await?;
    let pgbench = Pgbench::prepare(server, folder)?;
    let (rounds, duration) = size.pick((6, Duration::from_secs(4)), (1, Duration::from_secs(1)));
    let ids = Arc::new(Ids::at_random());
    let mut alone = Samples::default();
    let compared = in_turns(
        rounds,
        async |_| {
            alone.push(rate(&store, 1, &ids, duration / 2).await?);
            rate(&store, MANY, &ids, duration).await
        },
        async |round| pgbench.run(MANY, round, duration).await,
    )
    .await?;
    store.close().await;
    let name = |what: &str| format!("PostgreSQL, creates with ids at random, {what}");
    report.figure(Figure::new(name("1 writer"), alone.median(), "1/s"));
    report.figure(Figure::new(name(&format!("{MANY} writers")), compared.first.median(), "1/s"));
    report.figure(
        Figure::new(format!("PostgreSQL, pgbench, {MANY} clients"), compared.second.median(), "1/s")
            .note("one row of the same size"),
    );
    report.figure(
        Figure::new(name(&format!("{MANY} writers / pgbench")), compared.ratio(), "×")
            .budget(Budget::AtLeast(0.7))
            .note(compared.spread()),
    );
    Ok(())
}

/// Creates documents in one partition until the time is over; documents a second.
async fn rate(store: &Store, writers: usize, ids: &Arc<Ids>, duration: Duration) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..writers {
        let (store, ids) = (store.clone(), ids.clone());
        let (container, partition) = (document::plain(), document::partition("writes")?);
        tasks.spawn(async move {
            let mut written = 0_usize;
            while start.elapsed() < duration {
                store.create(&container, &partition, ids.next()?, &Document::new(written)).await?;
                written += 1;
            }
            anyhow::Ok(written)
        });
    }
    let mut written = 0;
    while let Some(outcome) = tasks.join_next().await {
        written += outcome??;
    }
    let rate = f64::from(u32::try_from(written)?) / start.elapsed().as_secs_f64();
    Progress.say(&format!("  {writers} at once: {rate:.0} creates a second"));
    Ok(rate)
}
