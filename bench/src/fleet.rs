//! Very many clusters in a region: how fast they come and go, the last beside the first, memory, idle processor.
//!
//! The region is `pilothouse up` in a process and a folder of its own. Clusters are asked for through the resource provider's
//! API: the first ones one after another, then all but the last a hundred at a time, and the last ones one after another
//! again, so that first and last are measured alike.

use std::ops::Range;

use anyhow::{Context as _, bail};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use pilothouse_runtime::Clock;
use tokio::time::Instant;

use crate::create::answering;
use crate::create::arm::Arm;
use crate::create::region::{Region, with_program};
use crate::create::timeline::Timeline;
use crate::harness::{
    Budget, Figure, Folder, Memory, Program, Progress, Report, Rest, Samples, Size, processor,
};

/// Clusters in a full run that says nothing else.
const CLUSTERS: usize = 1000;

/// How many clusters one run has, and how they are asked for.
#[derive(Clone, Copy, Debug)]
struct Plan {
    count: usize,
    /// How many are measured at the beginning, and as many at the end.
    measured: usize,
    /// How many are asked for at once between them.
    at_once: usize,
}

/// Clusters that came one after another.
#[derive(Default)]
struct Measured {
    /// Seconds until each answered.
    answering: Samples,
    timeline: Timeline,
}

pub(crate) async fn run(size: Size, clusters: Option<usize>) -> anyhow::Result<Report> {
    let count = clusters.unwrap_or_else(|| size.pick(CLUSTERS, 8));
    let plan = Plan { count, measured: size.pick(10, 2), at_once: size.pick(100, 4) };
    if count <= 2 * plan.measured {
        bail!("{count} clusters are too few: the first and the last {} are compared", plan.measured);
    }
    let mut report = Report::new("fleet", size);
    report.condition("clusters in the end", count.to_string());
    report.condition("asked for at once", plan.at_once.to_string());
    with_program(report, async |program, folder, report| measure(program, folder, plan, report).await).await
}

async fn measure(program: &Program, folder: &Folder, plan: Plan, report: &mut Report) -> anyhow::Result<()> {
    let (region, _) = Region::start(program, folder, "region").await?;
    let outcome = Box::pin(live(program, &region, plan, report)).await.with_context(|| region.said());
    let stopped = region.stop().await;
    outcome?;
    report
        .figure(Figure::new("region, SIGTERM → ended", stopped?.as_secs_f64(), "s").note("without clusters"));
    Ok(())
}

async fn live(program: &Program, region: &Region, plan: Plan, report: &mut Report) -> anyhow::Result<()> {
    let Plan { count, measured, at_once } = plan;
    let empty = Rest::of(program).await?;
    let before = Memory::of(&empty.census.region)?;
    let arm = Arm::open(&region.endpoints()?.frontend).await?;

    let first = one_by_one(&arm, region, 0..measured).await?;
    let crowd = arm.among(at_once);
    let start = Instant::now();
    many(measured..count - measured, at_once, async |number| {
        crowd.finish(&crowd.create_cluster(&name(number)).await?).await.map(drop)
    })
    .await?;
    let rate = f64::from(u32::try_from(count - 2 * measured)?) / start.elapsed().as_secs_f64();
    report.figure(
        Figure::new("creation, many at once", rate, "1/s").note(format!("Succeeded; {at_once} under way")),
    );
    let last = one_by_one(&arm, region, count - measured..count).await?;
    for (which, Measured { answering, timeline }) in [("first", &first), ("last", &last)] {
        let what = format!("creation, the {which} {measured}");
        report.figure(
            Figure::new(format!("{what}, PUT → answering, p50"), answering.median(), "s").note(format!(
                "{:.2} to {:.2}",
                answering.smallest(),
                answering.largest()
            )),
        );
        // If the last ones take longer, here is where.
        timeline.show(report, &what);
    }
    report.figure(
        Figure::new(
            format!("the last {measured} / the first {measured}"),
            last.answering.median() / first.answering.median(),
            "×",
        )
        .budget(Budget::AtMost(1.2))
        .note("medians; linear growth is 1"),
    );
    at_rest(program, before, count, report).await?;

    let start = Instant::now();
    many(0..count, at_once, async |number| crowd.delete_cluster(&name(number)).await).await?;
    let rate = f64::from(u32::try_from(count)?) / start.elapsed().as_secs_f64();
    report.figure(
        Figure::new("deletion, many at once", rate, "1/s").note(format!("gone; {at_once} under way")),
    );
    Ok(())
}

/// Creates clusters one after another, each when the last one answers.
async fn one_by_one(arm: &Arm, region: &Region, numbers: Range<usize>) -> anyhow::Result<Measured> {
    let mut measured = Measured::default();
    for number in numbers {
        let name = name(number);
        let start = Instant::now();
        let operation = arm.create_cluster(&name).await?;
        let operation = arm.finish(&operation).await.with_context(|| format!("cluster {name}"))?;
        answering::ready(region.data_dir(), &name).await?;
        let (took, now) = (start.elapsed(), Clock::system().now());
        measured.answering.push(took.as_secs_f64());
        measured.timeline.push_until(&operation, now);
    }
    Ok(measured)
}

/// Does something to many clusters, so many at once.
async fn many(
    numbers: Range<usize>,
    at_once: usize,
    each: impl AsyncFn(usize) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (total, each) = (numbers.len(), &each);
    let mut done = 0;
    stream::iter(numbers)
        .map(|number| async move { each(number).await.with_context(|| name(number)) })
        .buffer_unordered(at_once)
        .try_for_each(|()| {
            done += 1;
            if done % 50 == 0 || done == total {
                Progress.say(&format!("  {done} of {total}"));
            }
            std::future::ready(Ok(()))
        })
        .await
}

/// What a region with all of them uses when nothing happens.
async fn at_rest(program: &Program, before: Memory, count: usize, report: &mut Report) -> anyhow::Result<()> {
    let rest = Rest::of(program).await?;
    let planes = &rest.census.control_planes;
    if planes.len() != count {
        bail!("{} control planes run for {count} clusters", planes.len());
    }
    let number = f64::from(u32::try_from(count)?);
    let figure = Figure::new("clusters that run at once", number, "")
        .note(format!("each a control plane; {:.1} GiB", rest.total.total / 1024.0));
    // Fewer were not tried to be more.
    report.figure(if count < CLUSTERS { figure } else { figure.budget(Budget::AtLeast(1000.0)) });
    let each: anyhow::Result<Vec<_>> = planes.iter().map(|members| Memory::of(members)).collect();
    let totals: Samples = each?.iter().map(|memory| memory.total).collect();
    report.figure(
        Figure::new("memory, a light hosted cluster, idle", totals.median(), "MiB")
            .budget(Budget::AtMost(15.0))
            .note(format!("at most {:.1}{}", totals.largest(), rest.remark())),
    );
    let now = Memory::of(&rest.census.region)?;
    report.figure(
        Figure::new("memory, the region's own processes", now.total, "MiB")
            .note(format!("{:.1} before the first cluster", before.total)),
    );
    report.figure(Figure::new("memory, everything", rest.total.total / 1024.0, "GiB"));
    let share = processor::share(&rest.census.all()).await;
    report.figure(
        Figure::new("processor, everything, idle", share, "%").note(format!("of one; {count} clusters")),
    );
    Ok(())
}

fn name(number: usize) -> String {
    format!("fleet-{number}")
}
