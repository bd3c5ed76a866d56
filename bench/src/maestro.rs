//! Maestro's server and agent, and the original's server beside ours.
//!
//! Both servers are processes of their own over databases of the same PostgreSQL, speak MQTT through the same broker, and
//! are asked in turns by the same source over gRPC and REST. The bundles have the shape of the published measurements:
//! ten consumers, half of the bundles of 3 KB and half of 30 KB. First statuses are those of a real agent on a real (ours)
//! Kubernetes API, on which the objects they apply are watched. The thousand agents are connections of the benchmark that dial the server and report on what they
//! are sent.

mod agents;
mod load;
mod server;

use std::time::Duration;

use pilothouse_test_support::maestro::{self, Maestro};
use pilothouse_test_support::postgres;
use tokio::time::Instant;

use self::server::{Kind, Server, Site};
use crate::harness::{
    Budget, Figure, Folder, PILOTHOUSE, Program, Progress, Report, Samples, Size, flush_rate, in_turns,
};

const FLUSHES: Duration = Duration::from_millis(500);
/// Consumers among whom bundles are divided.
const CONSUMERS: usize = 10;

pub(crate) async fn run(size: Size) -> anyhow::Result<Report> {
    let mut report = Report::new("maestro", size);
    let folder = Folder::create()?;
    report.condition("file system of the stores", folder.describe());
    Progress.say("copying the program");
    let program = Program::copy_to(&folder, PILOTHOUSE)?;
    let rate = flush_rate(&folder, FLUSHES)?;
    report.figure(Figure::new("disk, append 4 KiB and fdatasync", rate, "1/s").note("for orientation"));
    let database = postgres::Server::start(postgres::Options::default());
    let Some(database) = database else {
        report.leave_out("every figure of Maestro: PostgreSQL is not installed (apt-get install postgresql)");
        return Ok(report);
    };
    let original = Maestro::find();
    match &original {
        Some(_) => report.condition("the original", maestro::version()),
        None => report.leave_out(format!(
            "the original Maestro {}: `cargo xtask maestro` provides it",
            maestro::version()
        )),
    }
    let site = Site::new(&program, original.as_ref(), &folder, &database).await?;
    let ours = site.start(Kind::Ours, "ours").await?;
    let theirs = match &original {
        Some(_) => Some(site.start(Kind::Original, "original").await?),
        None => None,
    };
    creates(&ours, theirs.as_ref(), size, &mut report).await?;
    lists(&site, size, &mut report).await?;
    drop(theirs);
    drop(ours);
    agents::first_status(&site, size, &mut report).await?;
    agents::many(&site, size, &mut report).await?;
    Ok(report)
}

/// Creates that were answered, while the bundles are being sent on.
async fn creates(
    ours: &Server,
    theirs: Option<&Server>,
    size: Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    Progress.say("creates");
    let duration = size.pick(Duration::from_secs(10), Duration::from_millis(500));
    let rounds = size.pick(3, 1);
    let measure = async |server: &Server, round: usize| {
        load::creates(server, &format!("round-{round}"), duration, usize::MAX).await
    };
    let name = |who: &str| format!("creates, durable, sustained, {who}");
    let budget = Budget::AtLeast(2_000.0);
    let Some(theirs) = theirs else {
        let mut samples = Samples::default();
        for round in 0..rounds {
            samples.push(measure(ours, round).await?);
        }
        report.figure(Figure::new(name("ours"), samples.median(), "1/s").budget(budget));
        return Ok(());
    };
    let compared = in_turns(
        rounds,
        async |round| measure(ours, round).await,
        async |round| measure(theirs, round).await,
    )
    .await?;
    report.figure(Figure::new(name("ours"), compared.first.median(), "1/s").budget(budget));
    report.figure(Figure::new(name("the original"), compared.second.median(), "1/s"));
    let ratio = Figure::new("creates, how many times the original", compared.ratio(), "×");
    report.figure(ratio.note(compared.spread()));
    Ok(())
}

/// All bundles of a store, as the original's client lists them: 400 at a time.
async fn lists(site: &Site<'_>, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let count = size.pick(6_000, 60);
    for kind in [Some(Kind::Ours), site.original.map(|_| Kind::Original)].into_iter().flatten() {
        let who = kind.name();
        Progress.say(&format!("{count} bundles, {who}"));
        let server = site.start(kind, &format!("list-{who}").replace(' ', "-")).await?;
        let (empty, _) = server.memory(size).await?;
        load::creates(&server, "many", Duration::from_secs(600), count).await?;
        let mut samples = Samples::default();
        for _ in 0..size.pick(5, 1) {
            let begun = Instant::now();
            let found = server.rest.resource_bundle_search("").await?.len();
            anyhow::ensure!(found == count, "{found} of {count} bundles were listed");
            samples.push(begun.elapsed().as_secs_f64());
        }
        let figure = Figure::new(format!("list of {count} bundles, {who}"), samples.median(), "s");
        let ours = kind == Kind::Ours;
        report.figure(if ours { figure.budget(Budget::Below(0.5)) } else { figure });
        let begun = Instant::now();
        let search = "payload->'metadata'->'labels'->>'api.openshift.com/id'='bundle-7'";
        anyhow::ensure!(server.rest.resource_bundle_search(search).await?.len() == 1, "not found by label");
        let took = begun.elapsed().as_secs_f64() * 1e3;
        report.figure(Figure::new(format!("search by label among {count} bundles, {who}"), took, "ms"));
        let (full, settled) = server.memory(size).await?;
        let remark = if settled { "" } else { "; NOT at rest" };
        let note = format!("{:.1} without any; {}{remark}", empty.total, full.parts());
        let figure =
            Figure::new(format!("memory of the server with {count} bundles, {who}"), full.total, "MiB");
        report.figure(if ours { figure.budget(Budget::AtMost(50.0)) } else { figure }.note(note));
    }
    Ok(())
}
