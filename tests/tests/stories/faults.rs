//! Every component of the flow is killed, or cut off for a while from everybody it calls, in the middle of every kind of operation;
//! whatever was acknowledged comes about, once, and nothing is left behind.
//!
//! Two calm lives of a cluster tell which points each component passes in which operation. After that there is a life for each of
//! them, or for a few of each component in a short run: the components are told, while they run, at which point they will fall.

mod attempt;
mod operation;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fmt, fs};

use nix::sys::signal::Signal;
use pilothouse_runtime::fault::{FAULT_FILE_VARIABLE, FAULT_TRACE_VARIABLE};
use pilothouse_test_support::{environment, falls};
use tokio::time::{Instant, sleep};

use self::attempt::{ACCEPTED, Attempt, Attempts, Fall, Passed, Passing};
use self::operation::{LIFE, Operation};
use crate::flow::{Flow, Whole, signal};
use crate::region::LIMIT;
use crate::spread::Spread;

/// How long a component is cut off.
const PAUSE: Duration = Duration::from_secs(2);
/// How often is looked whether something has come about, or somebody has fallen.
const LOOK: Duration = Duration::from_millis(50);

/// Which component falls where.
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

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_operations_come_about_whichever_component_falls() {
    let Some(mut spread) = Spread::start().await else { return };
    everybody_falls(&mut spread).await;
    spread.management.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_operations_come_about_wherever_the_whole_region_falls() {
    let Some(mut whole) = Whole::start().await else { return };
    everybody_falls(&mut whole).await;
    let mut region = whole.region;
    region.stop();
    assert_eq!((region.processes(), region.pod_files()), (Vec::new(), Vec::new()));
}

/// A life for each component and each passing; in a short run for so many of the points of each component.
async fn everybody_falls<F: Flow>(flow: &mut F) {
    let passed = calm_lives(flow).await;
    let mut attempts =
        if environment::is_long() { Attempts::all::<F>(&passed) } else { Attempts::some::<F>(&passed) };
    let mut rows: Vec<Row> = Vec::new();
    while attempts.left(Operation::Create) > 0 {
        for operation in LIFE {
            // Nobody has to fall in these any more, and they may be left out.
            if matches!(operation, Operation::Scale | Operation::Upgrade)
                && attempts.left(operation) == attempts.left(Operation::Delete)
            {
                continue;
            }
            let Some(Attempt { component, fall, mut passings }) = attempts.take(operation) else {
                live(flow, operation, None).await;
                continue;
            };
            let Some(passing) = passings.pop_front() else { continue };
            let fault = Fault { component, passing: &passing, fall };
            let fell = live(flow, operation, Some(fault)).await;
            let row = Row { component, operation, fall, passing, fell };
            // Not through the harness, which shows nothing of a story that goes well; a long one is watched.
            let _ = writeln!(std::io::stderr(), "{row}");
            falls::note(&row);
            rows.push(row);
            if !fell && !passings.is_empty() {
                attempts.put(operation, Attempt { component, fall, passings });
            }
        }
    }
    let table = || rows.iter().map(|row| format!("{row}\n")).collect::<String>();
    // Not every passing comes in every life, but some of each component do, in each operation and in each way that was tried.
    let alike = |row: &Row, other: &Row| {
        (row.component, row.operation, row.fall) == (other.component, other.operation, other.fall)
    };
    let unharmed: Vec<_> =
        rows.iter().filter(|row| !rows.iter().any(|other| other.fell && alike(row, other))).collect();
    let unharmed: String = unharmed.iter().map(|row| format!("{row}\n")).collect();
    assert!(unharmed.is_empty(), "nobody ever fell like this:\n{unharmed}of all:\n{}", table());
}

/// Two lives in which nobody falls: which points each component passed in which operation, in both, in their order. What came only
/// once goes by the clock, or by chance.
async fn calm_lives<F: Flow>(flow: &mut F) -> Passed {
    let file = |flow: &F, component: &str| flow.path(&format!("{component}.trace"));
    for component in F::COMPONENTS {
        let trace = file(flow, component);
        flow.restart(component, &[(FAULT_TRACE_VARIABLE, trace.to_str().unwrap())]).await;
    }
    let mut passed = Passed::new();
    for _ in 0..2 {
        for operation in LIFE {
            let lines =
                |flow: &F, component: &str| fs::read_to_string(file(flow, component)).unwrap_or_default();
            let before: Vec<_> = F::COMPONENTS.iter().map(|component| lines(flow, component).len()).collect();
            live(flow, operation, None).await;
            for (component, before) in F::COMPONENTS.iter().zip(before) {
                let now = passings(&lines(flow, component)[before..]);
                passed
                    .entry((*component, operation))
                    .and_modify(|former| former.retain(|passing| now.contains(passing)))
                    .or_insert(now);
            }
        }
    }
    for component in F::COMPONENTS {
        restart(flow, component).await;
        let writes = !passed[&(*component, Operation::Create)].is_empty();
        assert_ne!(
            writes,
            F::READERS.contains(component),
            "whether {component} passes a point when a cluster is made"
        );
        if !writes {
            let accepted = Passing { point: ACCEPTED.to_owned(), time: 1 };
            passed.extend(LIFE.map(|operation| ((*component, operation), vec![accepted.clone()])));
        }
    }
    passed
}

/// What a trace says, counted.
fn passings(trace: &str) -> Vec<Passing> {
    let mut times = BTreeMap::new();
    let passing = |point: &str| {
        let time = times.entry(point.to_owned()).or_insert(0);
        *time += 1;
        Passing { point: point.to_owned(), time: *time }
    };
    trace.lines().map(passing).collect()
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
    // Who passes no point is told otherwise.
    let mut outside = fault.filter(|fault| fault.passing.point == ACCEPTED);
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
            if accepted && let Some(Fault { component, fall, .. }) = outside.take() {
                signal(
                    flow.id(component),
                    if fall == Fall::Kill { Signal::SIGKILL } else { Signal::SIGSTOP },
                );
            }
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
    match fall {
        Fall::Kill if flow.has_died(component) => restart(flow, component).await,
        Fall::Cut if is_stopped(flow.id(component)) => {
            let _ = fs::remove_file(word(flow, component));
            flow.go_on_apart(component, PAUSE).await;
        }
        _ => return false,
    }
    true
}

fn is_stopped(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, state)| state.trim_start().starts_with('T'))
}

// === impl Row ===

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { component, operation, fall, passing: Passing { point, time }, fell } = self;
        let (operation, fall) = (format!("{operation:?}"), format!("{fall:?}"));
        let fell = if *fell { "fell" } else { "not passed" };
        write!(formatter, "{component:<20} {operation:<8} {fall:<6} {point:<60} {time:>4} {fell}")
    }
}
