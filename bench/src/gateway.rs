//! The gateway beside HAProxy, and how soon it knows a new cluster.
//!
//! Both are processes of their own in front of the same servers, tell them apart by the name in the first message of TLS, and are
//! asked in turns by the same clients. That message is a real one; what follows it is plain bytes, which neither of the two looks at,
//! so that what is measured is their work and not the cryptography of both ends. Our routes come from a Kubernetes API, as they
//! do everywhere; HAProxy has its own in its configuration. Neither logs single connections.

mod load;
mod proxies;
mod routable;
mod servers;

use std::cell::RefCell;
use std::time::Duration;

use self::load::Outcome;
use self::proxies::Proxy;
use self::servers::Servers;
use crate::harness::{
    Budget, Comparison, Figure, Folder, PILOTHOUSE, Program, Progress, Report, Size, in_turns,
};

/// Servers, each with a name.
const CLUSTERS: usize = 8;

pub(crate) async fn run(size: Size) -> anyhow::Result<Report> {
    let mut report = Report::new("gateway", size);
    let folder = Folder::create()?;
    Progress.say("copying the program");
    let program = Program::copy_to(&folder, PILOTHOUSE)?;
    let servers = Servers::start(0..CLUSTERS).await?;
    report.condition("clusters", CLUSTERS.to_string());
    Progress.say("the two proxies");
    let theirs = proxies::haproxy(&servers).await?;
    let (ours, client) = proxies::gateway(&program, &folder, &servers).await?;
    match theirs {
        Some(theirs) => Box::pin(beside(&ours, &theirs, &servers, size, &mut report)).await?,
        None => report.leave_out("all beside HAProxy: it is not installed (apt-get install haproxy)"),
    }
    routable::measure(&ours, &client, size, &mut report).await?;
    Ok(report)
}

/// The two in turns.
async fn beside(
    ours: &Proxy,
    theirs: &Proxy,
    servers: &Servers,
    size: Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    report.condition("HAProxy", proxies::haproxy_version().await?);
    Progress.say("bulk");
    let duration = size.pick(Duration::from_secs(5), Duration::from_millis(500));
    let rounds = size.pick(5, 1);
    let compared = in_turns(
        rounds,
        async |_| load::bulk(ours, servers, duration).await,
        async |_| load::bulk(theirs, servers, duration).await,
    )
    .await?;
    let note = format!("{} connections", load::BULK_CONNECTIONS);
    compare(report, "bulk", "MiB/s", &compared, Budget::AtLeast(1.0), &note);

    Progress.say("new connections");
    let (rates, latencies) =
        both(ours, theirs, rounds, async |proxy| load::connections(proxy, servers, duration).await).await?;
    let note = format!("{} at once: connect, name, answer, end", load::CONNECTIONS);
    compare(report, "new connections", "1/s", &rates, Budget::AtLeast(1.0), &note);
    compare(report, "a new connection to its answer, p99", "ms", &latencies, Budget::AtMost(1.0), "");

    Progress.say("questions on open connections");
    let (rates, latencies) =
        both(ours, theirs, rounds, async |proxy| load::questions(proxy, servers, duration).await).await?;
    let note = format!("{} connections, {} bytes there and back", load::CONNECTIONS, load::QUESTION);
    compare(report, "questions and answers", "1/s", &rates, Budget::AtLeast(1.0), &note);
    compare(report, "a question to its answer, p99", "ms", &latencies, Budget::AtMost(1.0), "");
    Ok(())
}

/// Rates and 99th percentiles of both, in turns.
async fn both(
    ours: &Proxy,
    theirs: &Proxy,
    rounds: usize,
    measure: impl AsyncFn(&Proxy) -> anyhow::Result<Outcome>,
) -> anyhow::Result<(Comparison, Comparison)> {
    let slowest = RefCell::new((Vec::new(), Vec::new()));
    let rates = in_turns(
        rounds,
        async |_| {
            let Outcome { rate, latencies } = measure(ours).await?;
            slowest.borrow_mut().0.push(latencies.percentile(99.0));
            Ok(rate)
        },
        async |_| {
            let Outcome { rate, latencies } = measure(theirs).await?;
            slowest.borrow_mut().1.push(latencies.percentile(99.0));
            Ok(rate)
        },
    )
    .await?;
    let mut latencies = Comparison::default();
    let (ours, theirs) = slowest.into_inner();
    ours.into_iter().zip(theirs).for_each(|(ours, theirs)| latencies.push(ours, theirs));
    Ok((rates, latencies))
}

fn compare(
    report: &mut Report,
    name: &str,
    unit: &'static str,
    compared: &Comparison,
    budget: Budget,
    note: &str,
) {
    report.figure(Figure::new(format!("{name}, ours"), compared.first.median(), unit).note(note));
    report.figure(Figure::new(format!("{name}, HAProxy"), compared.second.median(), unit));
    let ratio = Figure::new(format!("{name}, how many times HAProxy's"), compared.ratio(), "×");
    report.figure(ratio.budget(budget).note(compared.spread()));
}
