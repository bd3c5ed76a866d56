//! Hosted clusters that are Kubernetes itself, beside the same programs started by hand.
//!
//! The region is `pilothouse up` in a process and a folder of its own; clusters are asked for through the resource provider's
//! API, with the tag that chooses their programs. Beside it the same programs run bare, from the same files, on stores
//! that flush every write as well. Starts are compared in turns, memory at the same age.
//!
//! What a process has in memory is counted as if it were alone, so that neither side gains by the pages that both share;
//! only the memory of many clusters counts a shared page once, since that is what the machine has to have.

mod planes;
mod probe;
mod upgrade;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use pilothouse_arm::OperationStatus;
use pilothouse_runtime::Clock;
use pilothouse_test_support::upstream::{self, Upstream};
use tokio::time::{Instant, sleep};

use self::planes::Planes;
use crate::create::answering;
use crate::create::arm::{Arm, Wanted};
use crate::create::region::{Region, with_program};
use crate::create::timeline::Timeline;
use crate::harness::{
    Budget, Figure, Folder, Memory, Program, Progress, Report, Samples, Size, in_turns, resident,
};
use crate::kubeapi::server::{Kind, Site};

/// Clusters in a full run that says nothing else: as many as a machine with 24 GiB should have.
const CLUSTERS: usize = 20;
/// How many of them are asked for at once. More would only wait for each other's processors.
const AT_ONCE: usize = 2;
/// How long one of those may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// The tag that chooses Kubernetes' own programs.
const UPSTREAM: (&str, &str) = (pilothouse_api::PAYLOAD_TAG, "upstream");

/// What is measured with.
struct Bench<'a> {
    program: &'a Program,
    region: &'a Region,
    arm: Arm,
    site: Site<'a>,
    size: Size,
}

/// What is seen of the hosted clusters that are compared with bare programs.
#[derive(Default)]
struct Hosted {
    succeeded: Samples,
    timeline: Timeline,
    planes: Vec<Planes>,
}

pub(crate) async fn run(size: Size, clusters: Option<usize>) -> anyhow::Result<Report> {
    let count = clusters.unwrap_or_else(|| size.pick(CLUSTERS, 1));
    ensure!(count > 0, "there is nothing to measure about no clusters");
    let mut report = Report::new("upstream", size);
    report.condition("clusters in the end", count.to_string());
    let version = upstream::version();
    let Some(programs) = Upstream::find() else {
        report
            .leave_out(format!("all: Kubernetes {version} is not here; `cargo xtask upstream` provides it"));
        return Ok(report);
    };
    report.condition("Kubernetes", version);
    with_program(report, async |program, folder, report| {
        measure(program, folder, &programs, count, size, report).await
    })
    .await
}

async fn measure(
    program: &Program,
    folder: &Folder,
    programs: &Upstream,
    count: usize,
    size: Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    let versions = folder_of(programs)?;
    let arguments = [OsStr::new("--upstream"), versions.as_os_str()];
    let (region, _) = Region::start_with(program, folder, "region", &arguments).await?;
    let outcome = async {
        let arm = Arm::open(&region.endpoints()?.frontend).await?;
        let site = Site::new(program, Some(programs), folder)?;
        let bench = Bench { program, region: &region, arm, site, size };
        Box::pin(bench.live(count, report)).await
    };
    let outcome = outcome.await.with_context(|| region.said());
    let stopped = region.stop().await;
    outcome?;
    let took = stopped?.as_secs_f64();
    report.figure(Figure::new("region, SIGTERM → ended", took, "s").note("without clusters"));
    Ok(())
}

impl Bench<'_> {
    async fn live(&self, count: usize, report: &mut Report) -> anyhow::Result<()> {
        let hosted = Box::pin(self.starts(report)).await?;
        self.memory(&hosted, report).await?;
        Box::pin(self.many(count, report)).await?;
        match self.size {
            Size::Full => Box::pin(upgrade::measure(&self.arm, self.region, report)).await,
            Size::Sample => {
                report.leave_out("an upgrade under a probe: it takes minutes, and is part of a full run");
                Ok(())
            }
        }
    }

    /// Bare programs and a hosted cluster in turns: from nothing to ready.
    async fn starts(&self, report: &mut Report) -> anyhow::Result<Hosted> {
        let mut hosted = Hosted::default();
        let compared = in_turns(
            self.size.pick(5, 1),
            async |round| self.hosted(&format!("beside-{round}"), &mut hosted).await,
            async |round| {
                let bare = self.site.start(Kind::Real, &format!("bare-{round}")).await?;
                let took = bare.ready_after.as_secs_f64();
                Progress.say(&format!("  bare: ready after {took:.2} s"));
                bare.stop();
                Ok(took)
            },
        )
        .await?;
        report.figure(
            Figure::new("bare etcd and kube-apiserver, start → /readyz, p50", compared.second.median(), "s")
                .note(spread(&compared.second)),
        );
        report.figure(
            Figure::new("hosted, PUT → Succeeded, p50", hosted.succeeded.median(), "s")
                .note(spread(&hosted.succeeded)),
        );
        report.figure(
            Figure::new("hosted, PUT → kubeconfig answers /readyz, p50", compared.first.median(), "s")
                .note(format!("{}; controllers and scheduler run too", spread(&compared.first))),
        );
        report.figure(
            Figure::new("hosted / bare", compared.ratio(), "×")
                .budget(Budget::Below(1.3))
                .note(compared.spread()),
        );
        hosted.timeline.show_flow(report, "creation");
        Ok(hosted)
    }

    /// One hosted cluster, looked at and deleted. Returns the seconds until it answered.
    async fn hosted(&self, name: &str, hosted: &mut Hosted) -> anyhow::Result<f64> {
        let start = Instant::now();
        let operation = self.create(name, PATIENCE).await?;
        let succeeded = start.elapsed().as_secs_f64();
        answering::ready(self.region.data_dir(), name).await?;
        let (answering, now) = (start.elapsed().as_secs_f64(), Clock::system().now());
        Progress
            .say(&format!("  {name}: Succeeded after {succeeded:.2} s, answering after {answering:.2} s"));
        hosted.succeeded.push(succeeded);
        hosted.timeline.push_until(&operation, now);
        sleep(self.age()).await;
        hosted.planes.push(Planes::of(self.program)?);
        self.arm.delete_cluster(name).await?;
        Ok(answering)
    }

    /// The same four programs, bare, at the age at which the hosted ones were looked at.
    async fn memory(&self, hosted: &Hosted, report: &mut Report) -> anyhow::Result<()> {
        let (mut bare, mut ready) = (Samples::default(), Samples::default());
        for round in 0..self.size.pick(3, 1) {
            Progress.say("all four programs, bare");
            let server = self.site.start(Kind::Whole, &format!("whole-{round}")).await?;
            ready.push(server.ready_after.as_secs_f64());
            sleep(self.age()).await;
            bare.push(resident(&server.ids()?));
            server.stop();
        }
        for planes in &hosted.planes {
            ensure!(planes.clusters() == 1, "one cluster was there, and these ran: {planes:?}");
        }
        let whole: Samples = hosted.planes.iter().map(Planes::resident).collect();
        let shims: Samples = hosted.planes.iter().map(|planes| planes.shims).collect();
        report.figure(
            Figure::new("the four programs bare, started at once → /readyz, p50", ready.median(), "s")
                .note(spread(&ready)),
        );
        report.figure(
            Figure::new("memory, the four programs bare, idle", bare.median(), "MiB").note(spread(&bare)),
        );
        report.figure(Figure::new("memory, a hosted control plane, idle", whole.median(), "MiB").note(
            format!(
                "{}; shims {:.1}; {}",
                spread(&whole),
                shims.median(),
                hosted.planes.last().map(Planes::parts).unwrap_or_default()
            ),
        ));
        let more = (whole.median() / bare.median() - 1.0) * 100.0;
        report.figure(
            Figure::new("memory, hosted more than bare", more, "%")
                .budget(Budget::AtMost(5.0))
                .note(format!("medians, {} s after they were ready", self.age().as_secs())),
        );
        Ok(())
    }

    /// Many clusters on this machine, all of which answer in the end.
    async fn many(&self, count: usize, report: &mut Report) -> anyhow::Result<()> {
        let before = available()?;
        let start = Instant::now();
        let names: Vec<_> = (1..=count).map(|number| format!("many-{number}")).collect();
        stream::iter(&names)
            .map(|name| async move {
                self.create(name, PATIENCE).await?;
                Progress.say(&format!("  {name} is there"));
                anyhow::Ok(())
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        let took = start.elapsed().as_secs_f64();
        for name in &names {
            answering::ready(self.region.data_dir(), name).await?;
        }
        sleep(self.age()).await;
        let planes = Planes::of(self.program)?;
        if planes.clusters() != count {
            bail!("{count} clusters answer, and these run: {planes:?}");
        }
        let clusters = Memory::of(&planes.all())?;
        let own: Vec<_> = self.program.processes()?.iter().map(|process| process.id).collect();
        let everything = Memory::of(&planes.with(&own))?;
        let number = f64::from(u32::try_from(count)?);
        report.figure(
            Figure::new(format!("{count} clusters, first PUT → all Succeeded"), took, "s")
                .note(format!("{AT_ONCE} at once; each answers")),
        );
        report.figure(
            Figure::new(format!("memory, {count} clusters and the region"), everything.total / 1024.0, "GiB")
                .budget(Budget::AtMost(24.0 * number / f64::from(u32::try_from(CLUSTERS.max(count))?)))
                .note(format!(
                    "{:.0} MiB each; the machine had {:.1} GiB to spare before, {:.1} after",
                    clusters.total / number,
                    before,
                    available()?
                )),
        );
        stream::iter(&names)
            .map(|name| self.arm.delete_cluster(name))
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(())
    }

    /// A cluster of the newest version that has succeeded.
    async fn create(&self, name: &str, patience: Duration) -> anyhow::Result<OperationStatus> {
        let wanted =
            Wanted { name, version: release_of(upstream::version())?, tags: BTreeMap::from([UPSTREAM]) };
        let operation = self.arm.create(&wanted).await?;
        self.arm.finish_within(&operation, patience).await.with_context(|| format!("cluster {name}"))
    }

    /// How old processes are when their memory is looked at.
    fn age(&self) -> Duration {
        Duration::from_secs(self.size.pick(15, 2))
    }
}

/// The release with this version of Kubernetes: 4.y has 1.(y + 13).
fn release_of(kubernetes: &str) -> anyhow::Result<String> {
    let minor: Option<u32> = kubernetes.split('.').nth(1).and_then(|minor| minor.parse().ok());
    let minor = minor.and_then(|minor| minor.checked_sub(13));
    Ok(format!("4.{}", minor.with_context(|| format!("`{kubernetes}` is no version of Kubernetes"))?))
}

/// Where all versions are.
fn folder_of(programs: &Upstream) -> anyhow::Result<PathBuf> {
    let file = programs.program("etcd");
    let folder = file.parent().and_then(Path::parent).context("the programs are in no folder")?;
    Ok(folder.to_owned())
}

/// What the machine has to spare, in GiB.
fn available() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("cannot see how much memory there is")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim_end().parse::<f64>().ok());
    Ok(kibibytes.context("/proc/meminfo is not understood")? / 1024.0 / 1024.0)
}

fn spread(samples: &Samples) -> String {
    format!("{:.2} to {:.2}, {} of them", samples.smallest(), samples.largest(), samples.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_follow_the_minor_version_of_kubernetes() {
        assert_eq!(release_of("1.34.1").unwrap(), "4.21");
        assert_eq!(release_of("1.33.13").unwrap(), "4.20");
        assert!(release_of("1.x").is_err());
        assert!(release_of("1.3").is_err());
    }

    #[test]
    fn this_machine_has_memory_to_spare() {
        assert!(available().unwrap() > 0.0);
    }
}
