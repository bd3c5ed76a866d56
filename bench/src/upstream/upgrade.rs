//! From one minor version to the next, of a cluster with several of everything, while somebody asks it all the time.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use pilothouse_api::AVAILABILITY_TAG;
use pilothouse_test_support::upstream::{self as versions, Upstream};
use tokio::time::{Instant, sleep};

use super::probe;
use super::{UPSTREAM, release_of};
use crate::create::answering;
use crate::create::arm::{Arm, Wanted};
use crate::create::region::Region;
use crate::harness::{Budget, Figure, Progress, Report};

const NAME: &str = "upgraded";
/// How long making it, and its upgrade, may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// The probe goes on a little: what an upgrade breaks may show when it is over.
const AFTERWARDS: Duration = Duration::from_secs(5);

pub(super) async fn measure(arm: &Arm, region: &Region, report: &mut Report) -> anyhow::Result<()> {
    if Upstream::find_previous().is_none() {
        let version = versions::previous_version();
        report.leave_out(format!(
            "an upgrade: Kubernetes {version} is not here; `cargo xtask upstream --version {version}` provides it"
        ));
        return Ok(());
    }
    Progress.say("a highly available cluster of the version before");
    let wanted = Wanted {
        name: NAME,
        version: release_of(versions::previous_version())?,
        tags: BTreeMap::from([UPSTREAM, (AVAILABILITY_TAG, "HighlyAvailable")]),
    };
    let start = Instant::now();
    arm.finish_within(&arm.create(&wanted).await?, PATIENCE).await.context("the cluster to upgrade")?;
    answering::ready(region.data_dir(), NAME).await?;
    report.figure(Figure::new(
        "highly available, PUT → kubeconfig answers /readyz",
        start.elapsed().as_secs_f64(),
        "s",
    ));
    let client = answering::client(region.data_dir(), NAME).await?;

    Progress.say("its upgrade, under a probe");
    let upgrade = async {
        let start = Instant::now();
        let operation = arm.upgrade_cluster(NAME, &release_of(versions::version())?).await?;
        arm.finish_within(&operation, PATIENCE).await.context("the upgrade")?;
        let took = start.elapsed();
        sleep(AFTERWARDS).await;
        anyhow::Ok(took)
    };
    let (outcome, took) = probe::during(&client, upgrade).await;
    let took = took?;
    let version = client.apiserver_version().await?.git_version;
    let wanted = format!("v{}", versions::version());
    ensure!(version == wanted, "the upgrade has succeeded, and the cluster is {version}, not {wanted}");
    let (failed, asked) = (outcome.failures.len(), outcome.answers.len() + outcome.failures.len());
    let note = match outcome.failures.first() {
        None => format!("of {asked}, 10/s, reading from the store with one client"),
        Some(first) => format!("of {asked}, 10/s; the first: {first}"),
    };
    report.figure(
        Figure::new("highly available upgrade, PATCH → Succeeded", took.as_secs_f64(), "s").note(format!(
            "{} → {}",
            versions::previous_version(),
            versions::version()
        )),
    );
    report.figure(
        Figure::new("highly available upgrade, failed probes", f64::from(u32::try_from(failed)?), "")
            .budget(Budget::AtMost(0.0))
            .note(note),
    );
    report.figure(
        Figure::new("highly available upgrade, slowest probe", outcome.answers.largest(), "ms").note(
            format!("p50 {:.1}, p99 {:.1}", outcome.answers.median(), outcome.answers.percentile(99.0)),
        ),
    );
    arm.delete_cluster(NAME).await
}
