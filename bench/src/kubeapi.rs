//! Our Kubernetes API server beside the real one: etcd and kube-apiserver.
//!
//! Both run on this machine at the same time, with the same certificates, each on a store that flushes every write to the
//! disk, and are asked in turns by the same client: HTTP/1.1 over TLS, JSON. Ours runs without controllers, as
//! kube-apiserver does; what controllers and scheduler cost in the same process is a figure of its own. Where the real
//! programs are not in the cache, only ours is measured.

mod connection;
mod load;
pub(crate) mod server;
mod watchers;

use std::time::Duration;

use http::StatusCode;
use pilothouse_test_support::upstream::{self, Upstream};
use tokio::time::Instant;

use self::connection::Request;
use self::load::CONNECTIONS;
use self::server::{Kind, Server, Site};
use crate::harness::{
    Budget, Figure, Folder, PILOTHOUSE, Program, Progress, Report, Samples, Size, flush_rate, in_turns,
};

const FLUSHES: Duration = Duration::from_millis(500);
const OURS: Kind = Kind::Ours { controllers: false };
/// Longer than filling a store takes.
const LONG: Duration = Duration::from_secs(600);
/// Objects that are read one by one.
const READ: usize = 100;
/// Servers on one machine: there is one for every hosted cluster, and they share the program's pages.
const TOGETHER: usize = 10;
const NAMESPACE: &str = "load";
/// Of the objects that are listed.
const MANY: &str = "many";

/// One thing, measured on ours and, if it is here, on the real one.
#[derive(Default)]
struct Measured {
    ours: Samples,
    real: Option<Samples>,
    /// Ours over real, pair by pair.
    ratio: Option<f64>,
    spread: String,
}

pub(crate) async fn run(size: Size) -> anyhow::Result<Report> {
    let mut report = Report::new("kubeapi", size);
    let folder = Folder::create()?;
    report.condition("file system of the stores", folder.describe());
    report.condition(
        "load",
        format!("{CONNECTIONS} connections, HTTP/1.1 over TLS; clients share the processors"),
    );
    Progress.say("copying the program");
    let program = Program::copy_to(&folder, PILOTHOUSE)?;
    let rate = flush_rate(&folder, FLUSHES)?;
    report.figure(Figure::new("disk, append 4 KiB and fdatasync", rate, "1/s").note("for orientation"));
    let upstream = Upstream::find();
    let version = upstream::version();
    if upstream.is_some() {
        report.condition("the real one", format!("etcd and kube-apiserver {version}, both flushing"));
    } else {
        report.leave_out(format!("etcd and kube-apiserver {version}: `cargo xtask upstream` provides them"));
    }
    let site = Site::new(&program, upstream.as_ref(), &folder)?;

    let (ours, real) = start(&site, size, &mut report).await?;
    memory(&site, &ours, real.as_ref(), size, &mut report).await?;
    for server in [Some(&ours), real.as_ref()].into_iter().flatten() {
        load::once(server, &load::namespace(NAMESPACE), StatusCode::CREATED).await?;
    }
    rates(&ours, real.as_ref(), size, &mut report).await?;
    events(&ours, real.as_ref(), size, &mut report).await?;
    let (ours, real) = match size {
        // Starting once more is most of what a sample would take.
        Size::Sample => (ours, real),
        Size::Full => {
            ours.stop();
            drop(real);
            let real = match site.upstream {
                Some(_) => Some(site.start(Kind::Real, "real-full").await?),
                None => None,
            };
            (site.start(OURS, "ours-full").await?, real)
        }
    };
    lists(&ours, real.as_ref(), size, &mut report).await?;
    Ok(report)
}

/// Starts a few of each on empty stores. The last of each stays.
async fn start(site: &Site<'_>, size: Size, report: &mut Report) -> anyhow::Result<(Server, Option<Server>)> {
    let mut last = (None, None);
    let (mut ours, mut real) = (Samples::default(), Samples::default());
    for round in 0..size.pick(5, 1) {
        Progress.say("starting");
        last.0 = Some(site.start(OURS, &format!("ours-{round}")).await?);
        ours.push(last.0.as_ref().map_or(f64::NAN, |server| server.ready_after.as_secs_f64()));
        if site.upstream.is_some() {
            // The one before has to go first: two at once would be slower.
            drop(last.1.take());
            last.1 = Some(site.start(Kind::Real, &format!("real-{round}")).await?);
            real.push(last.1.as_ref().map_or(f64::NAN, |server| server.ready_after.as_secs_f64()));
        }
    }
    let measured = Measured {
        ratio: last.1.as_ref().map(|_| ours.median() / real.median()),
        real: last.1.as_ref().map(|_| real.clone()),
        spread: format!("of {} starts each", ours.len()),
        ours,
    };
    show(report, "ready, empty store, start → /readyz", "s", &measured, Wanted::Times(20.0));
    let ours = last.0.ok_or_else(|| anyhow::anyhow!("no server was started"))?;
    Ok((ours, last.1))
}

async fn memory(
    site: &Site<'_>,
    ours: &Server,
    real: Option<&Server>,
    size: Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    Progress.say("memory at rest");
    let (memory, settled) = ours.memory_at_rest(size).await?;
    let remark = |settled: bool| if settled { "" } else { "; NOT at rest" };
    report.figure(
        Figure::new("memory, idle, ours", memory.total, "MiB").budget(Budget::AtMost(12.0)).note(format!(
            "{}{}",
            memory.parts(),
            remark(settled)
        )),
    );
    let mut others = Vec::new();
    for number in 1..size.pick(TOGETHER, 2) {
        others.push(site.start(OURS, &format!("together-{number}")).await?);
    }
    let (memory, settled) = ours.memory_at_rest(size).await?;
    report.figure(
        Figure::new(
            format!("memory, idle, ours, one of {} on the machine", others.len() + 1),
            memory.total,
            "MiB",
        )
        .budget(Budget::AtMost(12.0))
        .note(format!("{}{}", memory.parts(), remark(settled))),
    );
    others.into_iter().for_each(Server::stop);
    let whole = site.start(Kind::Ours { controllers: true }, "controllers").await?;
    let (memory, settled) = whole.memory_at_rest(size).await?;
    report.figure(
        Figure::new("memory, idle, ours with controllers and scheduler", memory.total, "MiB").note(format!(
            "{}{}",
            memory.parts(),
            remark(settled)
        )),
    );
    whole.stop();
    if let Some(real) = real {
        let (memory, settled) = real.memory_at_rest(size).await?;
        report.figure(
            Figure::new("memory, idle, etcd and kube-apiserver", memory.total, "MiB").note(format!(
                "{}{}",
                memory.parts(),
                remark(settled)
            )),
        );
    }
    Ok(())
}

/// Durable creates, and reads of single objects.
async fn rates(ours: &Server, real: Option<&Server>, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let duration = size.pick(Duration::from_secs(5), Duration::from_millis(500));
    let rounds = size.pick(4, 1);
    Progress.say("creates");
    let created = both(rounds, ours, real, async |server: &Server, round| {
        let request = move |number: usize| load::create(NAMESPACE, &format!("object-{round}-{number}"));
        Ok(load::run(server, duration, usize::MAX, StatusCode::CREATED, request).await?.rate)
    })
    .await?;
    show(report, "creates, durable", "1/s", &created, Wanted::Rate(4.0));
    Progress.say("reads");
    for server in [Some(ours), real].into_iter().flatten() {
        let request = |number: usize| load::create(NAMESPACE, &format!("read-{number}"));
        load::run(server, LONG, READ, StatusCode::CREATED, request).await?;
    }
    let read = both(rounds, ours, real, async |server: &Server, _| {
        let request =
            |number: usize| Request::get(&format!("{}/read-{}", load::collection(NAMESPACE), number % READ));
        Ok(load::run(server, duration, usize::MAX, StatusCode::OK, request).await?.rate)
    })
    .await?;
    show(report, "GET of one object", "1/s", &read, Wanted::Rate(5.0));
    Ok(())
}

async fn events(ours: &Server, real: Option<&Server>, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let (count, number) = (size.pick(1_000, 100), size.pick(30, 3));
    Progress.say(&format!("{count} watchers"));
    let samples = watchers::measure(ours, count, number).await?;
    let note = |samples: &Samples| {
        format!("{number} writes, from when each was sent; p50 {:.1} ms", samples.median())
    };
    report.figure(
        Figure::new(format!("write → {count} watchers, p99, ours"), samples.percentile(99.0), "ms")
            .budget(Budget::Below(20.0))
            .note(note(&samples)),
    );
    if let Some(real) = real {
        let samples = watchers::measure(real, count, number).await?;
        let name = format!("write → {count} watchers, p99, etcd and kube-apiserver");
        report.figure(Figure::new(name, samples.percentile(99.0), "ms").note(note(&samples)));
    }
    Ok(())
}

/// Many objects, on servers that have none yet: what they take in memory, and how long all of them take to be listed.
async fn lists(ours: &Server, real: Option<&Server>, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let count = size.pick(10_000, 500);
    for (server, name) in [(Some(ours), "ours"), (real, "etcd and kube-apiserver")] {
        let Some(server) = server else { continue };
        load::once(server, &load::namespace(MANY), StatusCode::CREATED).await?;
        Progress.say(&format!("{count} objects, {name}"));
        let (empty, _) = server.memory_at_rest(size).await?;
        let mut at = (0, 0.0);
        let mut growth = String::new();
        // Twice, because what grows in proportion shows only at two points.
        for part in [count / 2, count] {
            let first = at.0;
            let request = move |number: usize| load::create(MANY, &format!("object-{:06}", first + number));
            load::run(server, LONG, part - first, StatusCode::CREATED, request).await?;
            let listed = load::once(server, &Request::get(&load::collection(MANY)), StatusCode::OK).await?;
            let (full, _) = server.memory_at_rest(size).await?;
            let bytes = f64::from(u32::try_from(listed.len())?);
            at = (part, (full.total - empty.total) * 1024.0 * 1024.0 / bytes);
            growth += &format!("{:.2} at {part}; ", at.1);
        }
        let figure = Figure::new(format!("memory per byte of JSON stored, {name}"), at.1, "×");
        let figure = if name == "ours" { figure.budget(Budget::AtMost(3.0)) } else { figure };
        report.figure(figure.note(format!("{growth}after a list of all")));
    }
    let listed = both(size.pick(7, 1), ours, real, async |server: &Server, _| {
        let mut connection = server.connect().await?;
        let start = Instant::now();
        let answer = connection.call(&Request::get(&load::collection(MANY))).await?;
        anyhow::ensure!(answer.status == StatusCode::OK, "{}", answer.status);
        Ok(start.elapsed().as_secs_f64() * 1e3)
    })
    .await?;
    show(report, &format!("list of {count} objects"), "ms", &listed, Wanted::Times(5.0));
    Ok(())
}

/// What is wanted of ours: so many times the rate, or so many times as quick.
#[derive(Clone, Copy)]
enum Wanted {
    Rate(f64),
    Times(f64),
}

async fn both(
    rounds: usize,
    ours: &Server,
    real: Option<&Server>,
    measure: impl AsyncFn(&Server, usize) -> anyhow::Result<f64>,
) -> anyhow::Result<Measured> {
    let Some(real) = real else {
        let mut samples = Samples::default();
        for round in 0..rounds {
            samples.push(measure(ours, round).await?);
        }
        return Ok(Measured { ours: samples, ..Measured::default() });
    };
    let compared =
        in_turns(rounds, async |round| measure(ours, round).await, async |round| measure(real, round).await)
            .await?;
    Ok(Measured {
        ratio: Some(compared.ratio()),
        spread: compared.spread(),
        ours: compared.first,
        real: Some(compared.second),
    })
}

fn show(report: &mut Report, name: &str, unit: &'static str, measured: &Measured, wanted: Wanted) {
    report.figure(Figure::new(format!("{name}, ours"), measured.ours.median(), unit));
    let Some(real) = &measured.real else { return };
    report.figure(Figure::new(format!("{name}, etcd and kube-apiserver"), real.median(), unit));
    let Some(ratio) = measured.ratio else { return };
    let (times, at_least) = match wanted {
        Wanted::Rate(times) => (ratio, times),
        Wanted::Times(times) => (1.0 / ratio, times),
    };
    report.figure(
        Figure::new(format!("{name}, how many times better"), times, "×")
            .budget(Budget::AtLeast(at_least))
            .note(measured.spread.clone()),
    );
}
