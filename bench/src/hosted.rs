//! Hosted clusters: created to available, their nodes, many on one machine, memory, idle processor.
//!
//! The region is `pilothouse up` in a process and a folder of its own. `HostedCluster`s are made in its management cluster, one
//! after another, as `hcp` makes them, and their conditions are watched: nothing of the resource provider is in the
//! figures. The operators run in the region's process, so what is said of their memory and processor time is a bound
//! from above: the management cluster's API server and all other services are in it too.

mod guests;

use anyhow::{Context as _, bail};

use self::guests::Guests;
use crate::create::region::{Region, with_program};
use crate::harness::{
    Budget, Figure, Folder, Memory, Program, Progress, Report, Rest, Samples, Size, processor,
};

/// Clusters in a full run that says nothing else. Their memory is what most machines have to spare.
const CLUSTERS: usize = 40;
/// What the last clusters are compared with: those around the tenth.
const EARLY: std::ops::Range<usize> = 5..15;

pub(crate) async fn run(size: Size, clusters: Option<usize>) -> anyhow::Result<Report> {
    let count = clusters.unwrap_or_else(|| size.pick(CLUSTERS, 3));
    if count == 0 {
        bail!("there is nothing to measure about no clusters");
    }
    let mut report = Report::new("hosted", size);
    report.condition("hosted clusters in the end", count.to_string());
    with_program(report, async |program, folder, report| measure(program, folder, count, size, report).await)
        .await
}

async fn measure(
    program: &Program,
    folder: &Folder,
    count: usize,
    size: Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (region, _) = Region::start(program, folder, "region").await?;
    let outcome = Box::pin(live(program, &region, count, size, report)).await.with_context(|| region.said());
    let stopped = region.stop().await;
    outcome?;
    let took = stopped?.as_secs_f64();
    report.figure(Figure::new("region, SIGTERM → ended, with its clusters", took, "s"));
    Ok(())
}

async fn live(
    program: &Program,
    region: &Region,
    count: usize,
    size: Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    let guests = Guests::open(&region.endpoints()?.management_kubeconfig).await?;
    let empty = Rest::of(program).await?;
    let before = Memory::of(&empty.census.region)?;

    let (mut available, mut answering) = (Samples::default(), Samples::default());
    for number in 1..=count {
        let made = Box::pin(guests.create(&name(number))).await.with_context(|| name(number))?;
        let (one, other) = (made.available.as_millis(), made.answering.as_millis());
        Progress.say(&format!("  {}: available after {one} ms, answering after {other} ms", name(number)));
        available.push_milliseconds(made.available);
        answering.push_milliseconds(made.answering);
    }
    for (what, samples) in [("Available", &available), ("its API answers", &answering)] {
        report.figure(
            Figure::new(format!("HostedCluster created → {what}, p50"), samples.median(), "ms")
                .budget(Budget::Below(300.0))
                .note(format!(
                    "{} clusters, from {:.0} to {:.0}, p99 {:.0}",
                    samples.len(),
                    samples.smallest(),
                    samples.largest(),
                    samples.percentile(99.0)
                )),
        );
    }
    growth(&answering, report);
    at_rest(program, before, count, report).await?;

    let mut nodes = Samples::default();
    for number in 1..=size.pick(5, 1).min(count) {
        let took = guests.three_nodes(&name(number)).await.with_context(|| name(number))?;
        Progress.say(&format!("  {}: three nodes ready after {} ms", name(number), took.as_millis()));
        nodes.push(took.as_secs_f64());
    }
    report.figure(
        Figure::new("NodePool of three created → 3 nodes Ready, p50", nodes.median(), "s")
            .budget(Budget::Below(1.0))
            .note(format!("{} pools, from {:.2} to {:.2}", nodes.len(), nodes.smallest(), nodes.largest())),
    );
    Ok(())
}

/// Whether the last clusters took as long as the early ones.
fn growth(samples: &Samples, report: &mut Report) {
    let values = samples.values();
    if values.len() < EARLY.end + EARLY.len() {
        report.leave_out("the last clusters beside the tenth: with fewer than 25 clusters none is the last");
        return;
    }
    let early: Samples = values[EARLY].iter().copied().collect();
    let late: Samples = values[values.len() - EARLY.len()..].iter().copied().collect();
    let name = format!("clusters around the {}th / around the 10th", values.len());
    report.figure(
        Figure::new(name, late.median() / early.median(), "×").budget(Budget::AtMost(1.2)).note(format!(
            "medians of {}: {:.0} and {:.0} ms",
            EARLY.len(),
            late.median(),
            early.median()
        )),
    );
}

async fn at_rest(program: &Program, before: Memory, count: usize, report: &mut Report) -> anyhow::Result<()> {
    let rest = Rest::of(program).await?;
    let planes = &rest.census.control_planes;
    if planes.len() != count {
        bail!("{} control planes run for {count} clusters: {:?}", planes.len(), rest.census);
    }
    let each: anyhow::Result<Vec<_>> = planes.iter().map(|members| Memory::of(members)).collect();
    let totals: Samples = each?.iter().map(|memory| memory.total).collect();
    report.figure(
        Figure::new("memory, a hosted cluster's processes, idle", totals.median(), "MiB")
            .budget(Budget::AtMost(15.0))
            .note(format!("at most {:.1}{}", totals.largest(), rest.remark())),
    );
    let now = Memory::of(&rest.census.region)?;
    report.figure(
        Figure::new(format!("memory, region's own processes with {count} clusters"), now.total, "MiB").note(
            format!("{:.1} before the first; operators, API server and services together", before.total),
        ),
    );
    report.figure(
        Figure::new("memory, what the clusters added to the region's own", now.total - before.total, "MiB")
            .budget(Budget::AtMost(80.0))
            .note("more than the operator's part alone, whose budget this is"),
    );
    let share = processor::share(&rest.census.region).await;
    report.figure(
        Figure::new(format!("processor, region's own processes with {count} idle clusters"), share, "%")
            .budget(Budget::Below(2.0))
            .note("of one processor; more than the operator's part alone, whose budget this is"),
    );
    Ok(())
}

fn name(number: usize) -> String {
    format!("guest-{number}")
}
