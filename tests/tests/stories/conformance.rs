//! Kubernetes' own tests of its API machinery, on a hosted cluster of its programs. Which of them is in `conformance.txt`; they take
//! a quarter of an hour, so this story is told by `./test --long`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pilothouse_test_support::process::Running;
use pilothouse_test_support::{environment, eventually};
use serde_json::Value;

use crate::manifests;
use crate::upstream::{RELEASE, cluster_of, start, wait};

const LIST: &str = include_str!("conformance.txt");

/// What the tests give themselves, and what they are given: a little more, so that they can say what they were at.
const THEIR_LIMIT: &str = "55m";
const LIMIT: Duration = Duration::from_mins(60);

/// What came of one test.
#[derive(Debug, PartialEq)]
struct Outcome {
    state: String,
    seconds: f64,
    why: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn conformance_tests_of_api_machinery_pass_on_a_cluster_of_upstream_programs() {
    if !environment::is_long() {
        return;
    }
    let Some((programs, mut region)) = start().await else { return };
    let Some(tests) = programs.conformance() else { return };
    region.apply(&manifests::text(&[cluster_of(RELEASE, "SingleReplica")])).unwrap();
    wait(&region, None, &["-n", "clusters", "hostedcluster/ada", "--for=condition=Available"]);
    let kubeconfig = region.kubeconfig("ada").unwrap();

    let outcomes = run(&tests, &kubeconfig, region.folder()).await;
    let (mut table, mut wrong) = (String::new(), 0);
    for name in listed(LIST) {
        let outcome = outcomes.get(name);
        let state = outcome.map_or("not found", |outcome| outcome.state.as_str());
        let seconds = outcome.map_or(0.0, |outcome| outcome.seconds);
        writeln!(table, "{state:<9} {seconds:>6.1} s  {name}").unwrap();
        if state != "passed" {
            wrong += 1;
            writeln!(table, "{}", outcome.map_or("no test has this name", |outcome| &outcome.why)).unwrap();
        }
    }
    // Not through the harness, which shows nothing of tests that pass.
    let _ = writeln!(std::io::stderr(), "{table}");
    assert_eq!(wrong, 0, "{table}");
    region.stop();
}

/// Runs the tests of the list, one after the other, and returns what came of each by its name.
async fn run(tests: &Path, kubeconfig: &Path, folder: &Path) -> BTreeMap<String, Outcome> {
    let (log, report) = (folder.join("conformance.log"), folder.join("conformance.json"));
    let output = File::create(&log).unwrap();
    let mut command = Command::new(tests);
    command
        .current_dir(folder)
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--ginkgo.json-report={}", report.display()))
        .arg(format!("--ginkgo.timeout={THEIR_LIMIT}"))
        // There are neither nodes nor pods to wait for.
        .args(["--provider=skeleton", "--allowed-not-ready-nodes=-1", "--minStartupPods=0", "--num-nodes=0"])
        .args(["--ginkgo.no-color", "--ginkgo.seed=1"])
        .args(listed(LIST).map(|name| format!("--ginkgo.focus={}", literally(name))))
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output);
    let mut running = Running::spawn(command).unwrap();
    eventually("the tests of Kubernetes have ended", LIMIT, || {
        let ended = running.child().try_wait().unwrap().is_some();
        async move { if ended { Ok(()) } else { Err("they go on") } }
    })
    .await;
    let text = fs::read_to_string(&report).unwrap_or_else(|error| {
        panic!(
            "there is no report ({error}); the tests said:\n{}",
            fs::read_to_string(&log).unwrap_or_default()
        )
    });
    outcomes(&serde_json::from_str(&text).unwrap())
}

/// Whatever ran, or should have, by its full name.
fn outcomes(report: &Value) -> BTreeMap<String, Outcome> {
    let suites = report.as_array().into_iter().flatten();
    let specs = suites.flat_map(|suite| suite["SpecReports"].as_array().into_iter().flatten());
    let ran = specs.filter(|spec| spec["LeafNodeType"] == "It" && spec["State"] != "skipped");
    ran.map(|spec| {
        let above = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten();
        let texts = above.chain([&spec["LeafNodeText"]]).filter_map(Value::as_str);
        let name = texts.collect::<Vec<_>>().join(" ");
        let outcome = Outcome {
            state: spec["State"].as_str().unwrap_or_default().to_owned(),
            seconds: spec["RunTime"].as_f64().unwrap_or_default() / 1e9,
            why: spec["Failure"]["Message"].as_str().unwrap_or_default().to_owned(),
        };
        (name, outcome)
    })
    .collect()
}

/// The tests of a list; a line that begins with `#` says something about them.
fn listed(list: &str) -> impl Iterator<Item = &str> {
    list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// A regular expression for this text and nothing after it. What is before is the name of all tests together.
fn literally(text: &str) -> String {
    let special = |character: char| r"\.+*?()|[]{}^$".contains(character);
    let mut expression = String::new();
    for character in text.chars() {
        if special(character) {
            expression.push('\\');
        }
        expression.push(character);
    }
    expression.push('$');
    expression
}

#[test]
fn names_stand_for_themselves() {
    assert_eq!(literally("[sig] a.b"), r"\[sig\] a\.b$");
    assert_eq!(listed("# why\n\n one \ntwo\n").collect::<Vec<_>>(), ["one", "two"]);
    let mut names: Vec<_> = listed(LIST).collect();
    let count = names.len();
    assert!(names.iter().all(|name| name.ends_with("[Conformance]")), "{names:?}");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a test is listed twice");
}

#[test]
fn reports_are_read_by_full_names() {
    let report = serde_json::json!([{ "SpecReports": [
        { "LeafNodeType": "BeforeSuite", "LeafNodeText": "", "State": "passed" },
        { "LeafNodeType": "It", "LeafNodeText": "b", "ContainerHierarchyTexts": ["a"], "State": "skipped" },
        { "LeafNodeType": "It", "LeafNodeText": "d", "ContainerHierarchyTexts": ["[x] c"], "State": "failed",
          "RunTime": 2_500_000_000_u64, "Failure": { "Message": "no" } },
    ] }]);
    let outcome = Outcome { state: "failed".to_owned(), seconds: 2.5, why: "no".to_owned() };
    assert_eq!(outcomes(&report), BTreeMap::from([("[x] c d".to_owned(), outcome)]));
}
