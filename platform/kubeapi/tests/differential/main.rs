//! The same requests against the real kube-apiserver and against ours; the answers must be equal.
//!
//! The requests are data: `steps/*.yaml`, one file per subject, with scenarios that each have a namespace of their own and
//! run side by side. What two servers cannot have in common (identifiers, times, revisions) is made equal by `normal`. What
//! else differs must be listed in `allowed.toml`, with a reason, and what is listed must differ: the list may only shrink.
//! How to add a request, and how to read a failure: `docs/how-to/compare-with-upstream.md`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod allowed;
mod client;
mod definitions;
mod difference;
mod foreign;
mod normal;
mod sample;
mod scenario;
mod table;
mod upstream;

use std::fs;
use std::path::{Path, PathBuf};

use futures::StreamExt;
use pilothouse_kubeapi::Config;
use pilothouse_kubeapi::testing::{Cluster, Options};
use pilothouse_test_support::upstream::{self as programs, Upstream};

use crate::allowed::Allowed;
use crate::client::Client;
use crate::difference::Difference;
use crate::scenario::Run;
use crate::table::Scenario;
use crate::upstream::Real;

/// How many scenarios are under way at once: enough to hide the waiting, few enough for two cores.
const AT_ONCE: usize = 12;

/// Fewer requests than this were once thought to be enough.
const FEWEST_REQUESTS: usize = 200;

/// Two real servers at once are too much for a small machine.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// When set, names a file that gets every difference as JSON.
const REPORT: &str = "PILOTHOUSE_DIFFERENTIAL_REPORT";

/// When set, lines that no longer hold are taken out of the list of what may differ. It never grows by itself.
const SHRINK: &str = "PILOTHOUSE_DIFFERENTIAL_SHRINK";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_are_those_of_the_real_server() {
    let Some(programs) = Upstream::find() else { return };
    let _alone = ALONE.lock().await;
    let scenarios = table::load(&folder().join("steps"));
    let options = Options {
        config: Config { version: programs::version().to_owned(), ..Config::default() },
        ..Options::default()
    };
    let ours = Cluster::start(options).await.unwrap();
    let real = Real::start(&programs, &ours).await;

    let outcomes: Vec<_> = futures::stream::iter(&scenarios)
        .map(|scenario| compare(scenario, &ours, &real))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    ours.stop().await.unwrap();
    drop(real);

    let mut differences: Vec<_> = outcomes.into_iter().flatten().collect();
    differences.sort_by(|left, right| left.step.cmp(&right.step));
    if let Some(file) = std::env::var_os(REPORT) {
        fs::write(file, serde_json::to_vec_pretty(&differences).unwrap()).unwrap();
    }
    let file = folder().join("allowed.toml");
    if std::env::var_os(SHRINK).is_some() {
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, Allowed::load(&file).shrunk(&text, &differences)).unwrap();
    }
    let verdict = Allowed::load(&file).judge(&differences);
    assert!(verdict.is_empty(), "{verdict}");
}

/// Runs one scenario against both.
async fn compare(scenario: &Scenario, ours: &Cluster, real: &Real) -> Vec<Difference> {
    let run = |at: String| async move {
        let client = Client::new(ours, at);
        Run::new(&client, scenario).await.all().await
    };
    let (real, ours) = futures::join!(run(real.url()), run(format!("https://{}", ours.address())));
    scenario
        .steps
        .iter()
        .zip(real.into_iter().zip(ours))
        .flat_map(|(step, (real, ours))| difference::between(&scenario.id(step), &real, &ours))
        .collect()
}

#[test]
fn table_has_as_many_requests_as_promised_and_each_has_a_name_of_its_own() {
    let scenarios = table::load(&folder().join("steps"));
    let mut names: Vec<_> =
        scenarios.iter().flat_map(|scenario| scenario.steps.iter().map(|step| scenario.id(step))).collect();
    let count = names.len();
    assert!(count >= FEWEST_REQUESTS, "only {count} requests");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "two steps have the same name");
}
