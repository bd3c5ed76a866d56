//! Every component of the flow is killed, or cut off for a while from everybody it calls, in the middle of every kind of operation;
//! whatever was acknowledged comes about, once, and nothing is left behind.
//!
//! Two calm lives of a cluster tell which points each component passes in which operation. After that there are lives in which they
//! fall at these, several in one, or at a few of each component in a short run: the components are told, while they run, at which
//! point they will fall.

mod attempt;
mod operation;
mod part;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;
use std::{fmt, fs};

use pilothouse_runtime::fault::FAULT_TRACE_VARIABLE;
use pilothouse_test_support::{environment, falls};
use tokio::time::{Instant, sleep};

use self::attempt::{ACCEPTED, Attempt, Attempts, Fall, Passed, Passing};
use self::operation::{LIFE, Operation};
use self::part::Part;
use crate::flow::{Flow, Whole};
use crate::region::LIMIT;
use crate::spread::Spread;

/// How often is looked whether something has come about, or somebody has fallen.
const LOOK: Duration = Duration::from_millis(50);

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

/// Each component falls at each passing; in a short run at so many of its points.
async fn everybody_falls<F: Flow>(flow: &mut F) {
    let passed = calm_lives(flow).await;
    let mut attempts =
        if environment::is_long() { Attempts::all::<F>(&passed) } else { Attempts::some::<F>(&passed) };
    let mut rows: Vec<Row> = Vec::new();
    while attempts.left(Operation::Create) > 0 {
        say(&format_args!("{} falls to come, {} behind", attempts.left(Operation::Create), rows.len()));
        for operation in LIFE {
            // Nobody has to fall in these any more, and they may be left out.
            if matches!(operation, Operation::Scale | Operation::Upgrade)
                && attempts.left(operation) == attempts.left(Operation::Delete)
            {
                continue;
            }
            let calm = |component| passed[&(component, operation)].clone();
            let parts = attempts.take::<F>(operation).into_iter();
            let parts = parts.map(|attempts| Part::new(calm(attempts[0].component), attempts)).collect();
            for (Attempt { component, fall, mut passings }, fell) in live(flow, operation, parts).await {
                let Some(passing) = passings.pop_front() else { continue };
                let row = Row { component, operation, fall, passing, fell };
                say(&row);
                if !fell && !passings.is_empty() {
                    attempts.put(operation, Attempt { component, fall, passings });
                    continue;
                }
                falls::note(&row);
                rows.push(row);
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

/// Not through the harness, which shows nothing of a story that goes well; a long one is watched.
fn say(what: &impl fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// Two lives in which nobody falls: which points each component passed in which operation, in both, in their order. What came only
/// once goes by the clock, or by chance.
async fn calm_lives<F: Flow>(flow: &mut F) -> Passed {
    let file = |flow: &F, component: &str| flow.path(&format!("{component}.trace"));
    for component in F::COMPONENTS {
        let trace = file(flow, component);
        flow.start_again(component, &[(FAULT_TRACE_VARIABLE, trace.to_str().unwrap())]).await;
        flow.answers().await;
    }
    let mut passed = Passed::new();
    for _ in 0..2 {
        for operation in LIFE {
            let lines =
                |flow: &F, component: &str| fs::read_to_string(file(flow, component)).unwrap_or_default();
            let before: Vec<_> = F::COMPONENTS.iter().map(|component| lines(flow, component).len()).collect();
            live(flow, operation, Vec::new()).await;
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
        part::start_again(flow, component).await;
        flow.answers().await;
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

/// Carries out one operation, in which some may fall. Who was to fall, and whether that happened.
async fn live<F: Flow>(flow: &mut F, operation: Operation, mut parts: Vec<Part>) -> Vec<(Attempt, bool)> {
    for part in &mut parts {
        part.tell(flow);
    }
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
                if accepted {
                    parts.iter_mut().for_each(|part| part.request_was_accepted(flow));
                }
                Err(format!("{} {}: {status} {answer}", step.method, step.id))
            };
            let Err(seen) = seen else { break };
            if part::pick_up_all(flow, &mut parts).await {
                // Whoever asked may have waited all the time for somebody who had fallen.
                began = Instant::now();
            }
            assert!(began.elapsed() < LIMIT, "{operation:?} with {parts:?}: {seen}");
            sleep(LOOK).await;
        }
    }
    // From here on they may pass where they like, once whoever was just reading has fallen.
    let mut somebody_may_have_fallen = false;
    for part in &mut parts {
        somebody_may_have_fallen |= part.let_be(flow);
    }
    if somebody_may_have_fallen {
        sleep(LOOK).await;
        part::pick_up_all(flow, &mut parts).await;
    }
    // What somebody passes who is just starting is no passing of the next operation.
    if !parts.is_empty() {
        flow.answers().await;
    }
    parts.into_iter().flat_map(Part::outcome).collect()
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
