//! A region and its clusters: start, creation step by step, deletion, memory.
//!
//! The region is `pilothouse up` in a process and a folder of its own, on ports that the system chooses, and clusters are
//! asked for through its API, one after another.
//!
//! Memory is the proportional set size of processes at rest; `/proc` is where all of it comes from.

pub(crate) mod answering;
pub(crate) mod arm;
pub(crate) mod region;
pub(crate) mod timeline;

use anyhow::{Context as _, bail};
use pilothouse_runtime::Clock;
use tokio::time::Instant;

use self::arm::Arm;
use self::region::Region;
use self::timeline::Timeline;
use crate::harness::{
    Budget, Figure, Folder, Memory, Program, Progress, Report, Rest, Samples, Size, processor,
};

/// Clusters that were asked for, and how long each took.
#[derive(Default)]
struct Created {
    names: Vec<String>,
    answered: Samples,
    succeeded: Samples,
    answering: Samples,
    timeline: Timeline,
}

pub(crate) async fn run(size: Size) -> anyhow::Result<Report> {
    region::with_program(Report::new("create", size), async |program, folder, report| {
        measure(program, folder, size, report).await
    })
    .await
}

async fn measure(program: &Program, folder: &Folder, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let region = start(program, folder, size, report).await?;
    let outcome = live(program, &region, size, report).await.with_context(|| region.said());
    let stopped = region.stop().await;
    outcome?;
    report
        .figure(Figure::new("region, SIGTERM → ended", stopped?.as_secs_f64(), "s").note("without clusters"));
    Ok(())
}

/// Starts a few fresh regions. The last stays.
async fn start(
    program: &Program,
    folder: &Folder,
    size: Size,
    report: &mut Report,
) -> anyhow::Result<Region> {
    let mut times = Samples::default();
    let mut running: Option<Region> = None;
    for round in 0..size.pick(5, 1) {
        if let Some(last) = running.take() {
            last.stop().await?;
        }
        Progress.say("starting a region");
        let (region, took) = Region::start(program, folder, &format!("region-{round}")).await?;
        times.push(took.as_secs_f64());
        running = Some(region);
    }
    report.figure(
        Figure::new("fresh region, start → every endpoint ready", times.median(), "s")
            .budget(Budget::Below(1.0))
            .note(spread(&times)),
    );
    running.context("no region was started")
}

async fn live(program: &Program, region: &Region, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let empty = Rest::of(program).await?;
    let memory = Memory::of(&empty.census.region)?;
    report.figure(
        Figure::new("memory, idle region", memory.total, "MiB").budget(Budget::AtMost(100.0)).note(format!(
            "{}{}",
            memory.parts(),
            empty.remark()
        )),
    );
    let arm = Arm::open(&region.endpoints()?.frontend).await?;
    let created = create(&arm, region, size.pick(20, 3)).await?;
    created.show(report);
    remember(program, &empty, created.names.len(), report).await?;

    let with_pools = &created.names[..size.pick(5, 1)];
    node_pools(&arm, with_pools, report).await?;
    let rest = Rest::of(program).await?;
    let workers = each(&rest.census.workers)?;
    report.figure(Figure::new("memory, worker, idle", median(&workers).total, "MiB").note(format!(
        "{}{}",
        median(&workers).parts(),
        rest.remark()
    )));

    let (mut bare, mut with_pool) = (Samples::default(), Samples::default());
    for name in &created.names {
        let start = Instant::now();
        arm.delete_cluster(name).await?;
        let samples = if with_pools.contains(name) { &mut with_pool } else { &mut bare };
        samples.push(start.elapsed().as_secs_f64());
    }
    for (name, samples) in
        [("deletion, DELETE → gone, p50", &bare), ("the same with a node pool, p50", &with_pool)]
    {
        report.figure(Figure::new(name, samples.median(), "s").note(spread(samples)));
    }
    let after = Rest::of(program).await?;
    let memory = Memory::of(&after.census.region)?;
    report.figure(
        Figure::new("memory, region after all clusters are gone", memory.total, "MiB").note(format!(
            "{}{}",
            memory.parts(),
            after.remark()
        )),
    );
    Ok(())
}

async fn create(arm: &Arm, region: &Region, count: usize) -> anyhow::Result<Created> {
    let mut created = Created::default();
    for number in 1..=count {
        let name = format!("bench-{number}");
        let start = Instant::now();
        let operation = arm.create_cluster(&name).await?;
        created.answered.push_milliseconds(start.elapsed());
        let operation = arm.finish(&operation).await.with_context(|| format!("cluster {name}"))?;
        let succeeded = start.elapsed();
        let asked = answering::ready(region.data_dir(), &name).await?;
        let (answering, now) = (start.elapsed(), Clock::system().now());
        let (one, other) = (succeeded.as_millis(), answering.as_millis());
        Progress.say(&format!("  {name}: Succeeded after {one} ms, answering after {other} ms"));
        if asked > 1 {
            Progress.say(&format!("  {name} had succeeded, and was not ready: asked {asked} times"));
        }
        created.names.push(name);
        created.succeeded.push(succeeded.as_secs_f64());
        created.answering.push(answering.as_secs_f64());
        created.timeline.push_until(&operation, now);
    }
    Ok(created)
}

/// Memory and processor of a region with clusters in which nothing happens.
async fn remember(program: &Program, empty: &Rest, count: usize, report: &mut Report) -> anyhow::Result<()> {
    let full = Rest::of(program).await?;
    let clusters = each(&full.census.control_planes)?;
    if clusters.len() != count {
        bail!("{} control planes run for {count} clusters: {:?}", clusters.len(), full.census);
    }
    let median = median(&clusters);
    let largest = clusters.iter().map(|memory| memory.total).fold(f64::NAN, f64::max);
    report.figure(
        Figure::new("memory, light hosted cluster, idle", median.total, "MiB")
            .budget(Budget::AtMost(15.0))
            .note(format!("{}; at most {largest:.1}{}", median.parts(), full.remark())),
    );
    let number = f64::from(u32::try_from(count)?);
    let growth = (full.total.total - empty.total.total) / number;
    report.figure(
        Figure::new("memory, growth of everything per cluster", growth, "MiB")
            .note("with the region's own part"),
    );
    let share = processor::share(&full.census.all()).await;
    report.figure(
        Figure::new("processor, idle region with its clusters", share, "%")
            .note(format!("of one; {count} clusters")),
    );
    Ok(())
}

async fn node_pools(arm: &Arm, clusters: &[String], report: &mut Report) -> anyhow::Result<()> {
    let (mut times, mut timeline) = (Samples::default(), Timeline::default());
    for name in clusters {
        let start = Instant::now();
        let operation = arm.create_node_pool(name).await?;
        let operation = arm.finish(&operation).await.with_context(|| format!("node pool of {name}"))?;
        times.push(start.elapsed().as_secs_f64());
        timeline.push(&operation);
    }
    report.figure(
        Figure::new("node pool of one, PUT → Succeeded, p50", times.median(), "s").note(spread(&times)),
    );
    timeline.show(report, "node pool");
    Ok(())
}

impl Created {
    fn show(&self, report: &mut Report) {
        let Self { answered, succeeded, answering, timeline, .. } = self;
        report.figure(Figure::new("creation, PUT → answered, p50", answered.median(), "ms"));
        for (what, samples) in [("Succeeded", succeeded), ("kubeconfig answers /readyz", answering)] {
            let name = |which: &str| format!("creation, PUT → {what}, {which}");
            report.figure(
                Figure::new(name("p50"), samples.median(), "s")
                    .budget(Budget::Below(0.5))
                    .note(spread(samples)),
            );
            report.figure(Figure::new(name("p99"), samples.percentile(99.0), "s").budget(Budget::Below(1.5)));
            report.figure(Figure::new(name("max"), samples.largest(), "s"));
        }
        timeline.show_flow(report, "creation");

        let values = answering.values();
        let third = (values.len() / 3).max(1);
        let (first, rest) = values.split_at(third.min(values.len()));
        let first: Samples = first.iter().copied().collect();
        let last: Samples = rest.iter().rev().take(third).copied().collect();
        let one = rest.last().copied().unwrap_or(f64::NAN);
        report.figure(
            Figure::new("growth, last third / first third of clusters", last.median() / first.median(), "×")
                .budget(Budget::AtMost(1.2))
                .note(format!("medians of {third}; linear growth is 1")),
        );
        report.figure(Figure::new("growth, last cluster / first third", one / first.median(), "×"));
    }
}

fn each(pods: &[Vec<i32>]) -> anyhow::Result<Vec<Memory>> {
    pods.iter().map(|pod| Memory::of(pod)).collect()
}

/// The one in the middle, by its total.
fn median(all: &[Memory]) -> Memory {
    let mut sorted = all.to_vec();
    sorted.sort_by(|one, other| one.total.total_cmp(&other.total));
    let nothing = Memory { total: f64::NAN, anonymous: f64::NAN };
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(nothing)
}

fn spread(samples: &Samples) -> String {
    format!("{:.2} to {:.2}, {} of them", samples.smallest(), samples.largest(), samples.len())
}
