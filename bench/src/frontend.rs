//! The resource provider: answers, durable requests, reaction, memory, and what many clusters cost.
//!
//! Frontend and backend run in one process of their own, as they have to on one SQLite database, with the log level they
//! have by default. This process makes the load, and is the Clusters Service behind them: a simulated one, where everything
//! comes true at once. So the processors are shared between the provider, its clients and what it calls, and figures are
//! those of the whole machine.
//!
//! Rates are of connections that send the next request when the last is answered. Latencies are taken at a fixed rate
//! instead, from the moment a request was due, so that waiting behind a slow one counts.

mod body;
mod load;
mod provider;
mod reaction;
mod scale;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use http::StatusCode;
use pilothouse_clusters_service_api::simulated::{Mode, Simulated};

use self::body::Place;
use self::load::{Load, Request};
use self::provider::Provider;
pub(crate) use self::provider::{ServeArgs, serve};
use crate::harness::{Budget, Figure, Folder, Program, Progress, Report, Size, flush_rate};

/// Connections at once.
const CONNECTIONS: usize = 64;
/// The rate at which latencies are taken, a second.
const GETS: u32 = 8_000;
/// Clusters that are read.
const CLUSTERS: usize = 100;
const FLUSHES: Duration = Duration::from_millis(500);

pub(crate) async fn run(size: Size) -> anyhow::Result<Report> {
    let mut report = Report::new("frontend", size);
    let folder = Folder::create()?;
    report.condition("file system of the store", folder.describe());
    report.condition(
        "load",
        format!("{CONNECTIONS} connections; clients and the simulated Clusters Service share the processors"),
    );
    let program = Program::copy_to(&folder, "resource-provider")?;
    let rate = flush_rate(&folder, FLUSHES)?;
    report.figure(Figure::new("disk, append 4 KiB and fdatasync", rate, "1/s").note("for orientation"));

    Progress.say("memory at rest, with an empty store");
    let clusters_service = Simulated::start(Mode::Automatic).await;
    let empty = Provider::start(&program, &folder, "empty", &clusters_service).await?;
    memory(&empty, &mut report).await?;
    empty.stop();

    let place = Place::new(1);
    body::populate(&folder, "load", 1, CLUSTERS).await?;
    let provider = Provider::start(&program, &folder, "load", &clusters_service).await?;
    gets(&provider, &place, size, &mut report).await?;
    reaction::measure(&provider, &place, &clusters_service, size, &mut report).await?;
    puts(&provider, &place, size, &mut report).await?;
    provider.stop();

    scale::measure(&program, &folder, &clusters_service, size, &mut report).await?;
    Ok(report)
}

async fn memory(provider: &Provider, report: &mut Report) -> anyhow::Result<()> {
    let (memory, settled) = provider.memory_at_rest().await?;
    report.figure(
        Figure::new("memory, frontend and backend at rest", memory.total, "MiB")
            .budget(Budget::AtMost(40.0))
            .note(format!("one process, {}{}", memory.parts(), if settled { "" } else { "; NOT at rest" })),
    );
    Ok(())
}

/// Reading one cluster.
async fn gets(provider: &Provider, place: &Place, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let requests: Vec<Request> = (0..CLUSTERS).map(|number| Request::get(&place.cluster(number))).collect();
    let load = Load::new(provider.address(), CONNECTIONS, StatusCode::OK);
    let next = AtomicUsize::new(0);
    let request = Arc::new(move || requests[next.fetch_add(1, Ordering::Relaxed) % requests.len()].clone());
    let duration = size.pick(Duration::from_secs(10), Duration::from_secs(1));
    // What is slow the first time is not what is asked for.
    load.as_fast_as_possible(duration / 5, request.clone()).await?;
    let outcome = load.as_fast_as_possible(duration, request.clone()).await?;
    report.figure(
        Figure::new("GET, as fast as possible", outcome.rate, "1/s")
            .budget(Budget::AtLeast(f64::from(GETS)))
            .note(format!("p99 {:.2} ms while everything is busy", outcome.latencies.percentile(99.0))),
    );
    let paced = load.paced(GETS, duration, request).await?;
    let note = format!("{:.0} a second of {GETS}, from when each was due", paced.rate);
    report.figure(Figure::new("GET, latency p50", paced.latencies.median(), "ms").note(note.clone()));
    report.figure(
        Figure::new("GET, latency p99", paced.latencies.percentile(99.0), "ms")
            .budget(Budget::Below(5.0))
            .note(note),
    );
    Ok(())
}

/// Asking for new clusters, while the backend makes those that were asked for.
async fn puts(provider: &Provider, place: &Place, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let load = Load::new(provider.address(), CONNECTIONS, StatusCode::CREATED);
    let next = AtomicUsize::new(0);
    let owned = place.clone();
    let request = Arc::new(move || {
        let name = format!("put-{}", next.fetch_add(1, Ordering::Relaxed));
        Request::put(&owned.cluster_named(&name), &owned.body(&name))
    });
    let duration = size.pick(Duration::from_secs(8), Duration::from_millis(500));
    let outcome = load.as_fast_as_possible(duration, request).await?;
    ensure!(outcome.latencies.len() > 0, "no PUT was answered");
    report.figure(
        Figure::new("PUT, durable, as fast as possible", outcome.rate, "1/s").budget(Budget::AtLeast(500.0)).note(
            format!(
                "new clusters in one subscription, each asked in advance at Clusters Service, made meanwhile; p99 {:.0} ms",
                outcome.latencies.percentile(99.0)
            ),
        ),
    );
    Ok(())
}
