//! Every component of the flow is killed, or cut off for a while from everybody it calls, in the middle of every kind of operation;
//! whatever was acknowledged comes about, once, and nothing is left behind.
//!
//! One calm life of a cluster tells which points each component passes in which operation. After that there is a life for each of
//! them, or for a few of each component in a short run: the component is told, while it runs, at which point it will fall.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fmt, fs};

use pilothouse_runtime::fault::{FAULT_FILE_VARIABLE, FAULT_TRACE_VARIABLE};
use pilothouse_test_support::environment;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::first_light::{cluster_body, node_pool_body};
use crate::flow::Flow;
use crate::region::{LIMIT, Region};
use crate::spread::Spread;

/// The same name every time: the next life begins when the one before has just ended.
const NAME: &str = "phoenix";
/// How long a component is cut off.
const PAUSE: Duration = Duration::from_secs(2);
/// How often is looked whether something has come about, or somebody has fallen.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Create,
    Scale,
    Upgrade,
    Delete,
}

/// How a component falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fall {
    Kill,
    /// It is cut off; the one process of a region that has only one stands still instead.
    Cut,
}

/// A point, and the how manieth time that it is passed in an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Passing {
    point: String,
    time: usize,
}

/// Which component falls where, in which operation.
#[derive(Clone, Copy, Debug)]
struct Fault<'a> {
    component: &'static str,
    passing: &'a Passing,
    fall: Fall,
}

/// What came of one.
struct Row {
    component: &'static str,
    operation: Operation,
    fall: Fall,
    passing: Passing,
    fell: bool,
}

const LIFE: [Operation; 4] = [Operation::Create, Operation::Scale, Operation::Upgrade, Operation::Delete];

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_operations_come_about_whichever_component_falls() {
    let Some(mut spread) = Spread::start().await else { return };
    everybody_falls(&mut spread, 1).await;
    spread.management.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_operations_come_about_wherever_the_whole_region_falls() {
    let Some(mut region) = Region::start(&[]).await else { return };
    region.provider().register();
    // All components are one process: in a short run it falls more often than each of several would.
    everybody_falls(&mut region, 3).await;
    region.stop();
    assert_eq!((region.processes(), region.pod_files()), (Vec::new(), Vec::new()));
}

/// A life for each component and each passing; in a short run for so many of the points of each component.
async fn everybody_falls<F: Flow>(flow: &mut F, short: usize) {
    let passed = calm_life(flow).await;
    let long = environment::is_long();
    let mut rows: Vec<Row> = Vec::new();
    for component in F::COMPONENTS {
        let passed = |operation| passed.get(&(*component, operation)).map(Vec::as_slice).unwrap_or_default();
        assert!(!passed(Operation::Create).is_empty(), "{component} passes no point when a cluster is made");
        let falls: &[Fall] = if long { &[Fall::Kill, Fall::Cut] } else { &[Fall::Kill] };
        for fall in falls {
            // A short run goes by names: the first passing is the one that is always there.
            let passings =
                |operation| if long { fall.wanted(passed(operation)) } else { first(passed(operation)) };
            let most = LIFE.iter().map(|operation| passings(*operation).len()).max().unwrap_or_default();
            let rounds = if long { most } else { short };
            for round in 0..rounds {
                for (index, operation) in LIFE.into_iter().enumerate() {
                    let passings = passings(operation);
                    // One cut of each component is enough for a short run.
                    let fall = if !long && operation == Operation::Scale { Fall::Cut } else { *fall };
                    // A short run takes points of all parts of the way, and others in every operation.
                    let apart = (round * passings.len() / rounds + index) % passings.len().max(1);
                    let chosen = if long { passings.get(round) } else { passings.get(apart) };
                    let fault = chosen.map(|passing| Fault { component, passing, fall });
                    let fell = live(flow, operation, fault).await;
                    if let Some(Fault { passing, .. }) = fault {
                        let row = Row { component, operation, fall, passing: passing.clone(), fell };
                        // Not through the harness, which shows nothing of a story that goes well; a long one is watched.
                        let _ = writeln!(std::io::stderr(), "{row}");
                        rows.push(row);
                    }
                }
            }
        }
    }
    let table = || rows.iter().map(|row| format!("{row}\n")).collect::<String>();
    // Not every passing comes in every life, but some of each component do; in a long run in each operation and in both ways.
    let alike = |row: &Row, other: &Row| {
        row.component == other.component
            && (!long || (row.operation, row.fall) == (other.operation, other.fall))
    };
    let unharmed: Vec<_> =
        rows.iter().filter(|row| !rows.iter().any(|other| other.fell && alike(row, other))).collect();
    let unharmed: String = unharmed.iter().map(|row| format!("{row}\n")).collect();
    assert!(unharmed.is_empty(), "nobody ever fell like this:\n{unharmed}of all:\n{}", table());
}

/// Of the passings of each point the first, in the order in which they came.
fn first(passings: &[Passing]) -> Vec<Passing> {
    passings.iter().filter(|passing| passing.time == 1).cloned().collect()
}

/// One life in which nobody falls: which points each component passed in which operation, in their order.
async fn calm_life<F: Flow>(flow: &mut F) -> BTreeMap<(&'static str, Operation), Vec<Passing>> {
    let file = |flow: &F, component: &str| flow.path(&format!("{component}.trace"));
    for component in F::COMPONENTS {
        let trace = file(flow, component);
        flow.restart(component, &[(FAULT_TRACE_VARIABLE, trace.to_str().unwrap())]).await;
    }
    let mut passed = BTreeMap::new();
    for operation in LIFE {
        let lines = |flow: &F, component: &str| fs::read_to_string(file(flow, component)).unwrap_or_default();
        let before: Vec<_> = F::COMPONENTS.iter().map(|component| lines(flow, component).len()).collect();
        live(flow, operation, None).await;
        for (component, before) in F::COMPONENTS.iter().zip(before) {
            let (mut passings, mut times) = (Vec::new(), BTreeMap::new());
            for point in lines(flow, component)[before..].lines() {
                let time = times.entry(point.to_owned()).or_insert(0);
                *time += 1;
                passings.push(Passing { point: point.to_owned(), time: *time });
            }
            passed.insert((*component, operation), passings);
        }
    }
    for component in F::COMPONENTS {
        restart(flow, component).await;
    }
    passed
}

/// What tells a component where it will fall.
fn word(flow: &impl Flow, component: &str) -> PathBuf {
    flow.path(&format!("{component}.fault"))
}

/// Starts a component again, which has not been told yet, and will listen.
async fn restart(flow: &mut impl Flow, component: &str) {
    let word = word(flow, component);
    let _ = fs::remove_file(&word);
    flow.restart(component, &[(FAULT_FILE_VARIABLE, word.to_str().unwrap())]).await;
}

/// Carries out one operation, in which somebody may fall. Whether that happened.
async fn live<F: Flow>(flow: &mut F, operation: Operation, fault: Option<Fault<'_>>) -> bool {
    if let Some(Fault { component, passing: Passing { point, time }, fall }) = fault {
        let fatal = match fall {
            Fall::Kill => format!("{point}:{time}"),
            Fall::Cut => format!("{point}:{time}:stop"),
        };
        let (word, whole) = (word(flow, component), flow.path("fault"));
        // With something that no other had: the same point may be the next one's, too.
        static SERIAL: AtomicUsize = AtomicUsize::new(0);
        fs::write(&whole, format!("{fatal}\n{}\n", SERIAL.fetch_add(1, Ordering::Relaxed))).unwrap();
        fs::rename(whole, word).unwrap();
    }
    let mut fell = false;
    for step in operation.steps() {
        let mut accepted = false;
        let mut began = Instant::now();
        loop {
            let seen = if accepted {
                step.outcome(flow)
            } else {
                // Asked again until somebody says yes: no answer is no acknowledgement, and one that was stored all the same
                // is found by the next.
                let (status, answer) = flow.provider().arm(step.method, &step.id, step.body.as_ref());
                accepted = step.accepts(status);
                Err(format!("{} {}: {status} {answer}", step.method, step.id))
            };
            let Err(seen) = seen else { break };
            if let Some(fault) = fault
                && !fell
            {
                fell = pick_up(flow, fault).await;
                if fell {
                    // Whoever asked may have waited all the time for somebody who had fallen.
                    began = Instant::now();
                }
            }
            assert!(began.elapsed() < LIMIT, "{operation:?} with {fault:?} (fell: {fell}): {seen}");
            sleep(LOOK).await;
        }
    }
    if let Some(fault) = fault
        && !fell
    {
        // From here on it may pass where it likes, once whoever was just reading has fallen.
        let _ = fs::remove_file(word(flow, fault.component));
        sleep(LOOK).await;
        fell = pick_up(flow, fault).await;
    }
    fell
}

/// Starts a component again that was killed, or lets it go on cut off. Whether it had fallen.
async fn pick_up<F: Flow>(flow: &mut F, fault: Fault<'_>) -> bool {
    let Fault { component, fall, .. } = fault;
    let process = flow.process(component);
    match fall {
        Fall::Kill => {
            let Some(status) = process.child().try_wait().unwrap() else { return false };
            assert_eq!(status.signal(), Some(9), "{component} ended with {status}");
            restart(flow, component).await;
        }
        Fall::Cut => {
            let id = process.id();
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
            if !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('T') {
                return false;
            }
            let _ = fs::remove_file(word(flow, component));
            flow.go_on_apart(component, PAUSE).await;
        }
    }
    true
}

/// Something that is asked for, and how it is known to have come about.
struct Step {
    operation: Operation,
    method: &'static str,
    id: String,
    body: Option<Value>,
}

// === impl Fall ===

impl Fall {
    /// Of the passings of each point those at which a component falls like this, in the order in which they came: it is killed
    /// the first time and the last, and cut off in the middle.
    fn wanted(self, passings: &[Passing]) -> Vec<Passing> {
        let times = |point: &str| passings.iter().filter(|other| other.point == point).count();
        let is_wanted = |Passing { point, time }: &Passing| match self {
            Self::Kill => [1, times(point)].contains(time),
            Self::Cut => times(point).div_ceil(2) == *time,
        };
        passings.iter().filter(|passing| is_wanted(passing)).cloned().collect()
    }
}

// === impl Operation ===

impl Operation {
    fn steps(self) -> Vec<Step> {
        let cluster = Region::cluster_id(NAME);
        let pool = format!("{cluster}/nodePools/workers");
        let step = |method, id: &String, body| Step { operation: self, method, id: id.clone(), body };
        match self {
            Self::Create => {
                let mut workers = node_pool_body(1);
                workers["properties"]["version"] = json!({ "id": "4.20.8" });
                vec![step("PUT", &cluster, Some(cluster_body())), step("PUT", &pool, Some(workers))]
            }
            Self::Scale => vec![step("PUT", &pool, Some(node_pool_body(2)))],
            Self::Upgrade => {
                vec![step("PATCH", &cluster, Some(json!({ "properties": { "version": { "id": "4.21" } } })))]
            }
            Self::Delete => vec![step("DELETE", &cluster, None)],
        }
    }
}

// === impl Step ===

impl Step {
    fn accepts(&self, status: u16) -> bool {
        matches!(status, 200..=202) || (self.method == "DELETE" && matches!(status, 204 | 404))
    }

    /// Whether it has come about, as far as anybody can see; else what is seen instead.
    fn outcome(&self, flow: &impl Flow) -> Result<(), String> {
        let (status, body) = flow.provider().arm("GET", &self.id, None);
        let state = &body["properties"]["provisioningState"];
        if self.operation == Operation::Delete {
            return if status == 404 {
                flow.provider().nothing_left(|arguments| flow.kubectl(arguments))
            } else {
                Err(format!("{status} {body}"))
            };
        }
        if *state == "Failed" {
            panic!("{:?} failed: {body}", self.operation);
        }
        if *state != "Succeeded" {
            return Err(format!("{status} {body}"));
        }
        match self.operation {
            Operation::Scale => {
                let nodes = flow.kubectl_in(NAME, &["get", "nodes", "--no-headers"])?;
                let ready = nodes.lines().filter(|node| node.contains(" Ready ")).count();
                if (nodes.lines().count(), ready) == (2, 2) { Ok(()) } else { Err(nodes) }
            }
            Operation::Upgrade => {
                let version = flow.kubectl_in(NAME, &["version", "-o", "json"])?;
                let version: Value = serde_json::from_str(&version).map_err(|error| error.to_string())?;
                let minor = &version["serverVersion"]["minor"];
                if *minor == "34" { Ok(()) } else { Err(format!("it runs 1.{minor}")) }
            }
            Operation::Create => {
                flow.kubectl_in(NAME, &["get", "--raw", "/readyz"])?;
                flow.provider().only_once(NAME, |arguments| flow.kubectl(arguments))
            }
            Operation::Delete => Ok(()),
        }
    }
}

// === impl Row ===

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { component, operation, fall, passing: Passing { point, time }, fell } = self;
        let (operation, fall) = (format!("{operation:?}"), format!("{fall:?}"));
        let fell = if *fell { "fell" } else { "not passed" };
        write!(formatter, "{component:<20} {operation:<8} {fall:<6} {point:<36} {time:>4} {fell}")
    }
}
