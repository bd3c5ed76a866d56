//! Where the time of operations goes, step by step.
//!
//! An operation has its steps with the instants at which somebody wrote them down; of a creation, Clusters Service says when it
//! came past which step. Not every step of the flow is written down by itself: what is awaited is seen from outside, by what
//! comes back of it. A step that is not recorded has no figure of its own, and says which step it is a part of; one that took
//! less than it is recorded to says so.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use jiff::Timestamp;
use pilothouse_arm::OperationStatus;

use crate::harness::{Figure, Report, Samples};

/// The steps of many operations of one kind.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// Milliseconds of each recorded step, by its number.
    steps: BTreeMap<usize, Samples>,
    /// Milliseconds in which no step was under way.
    between: Samples,
    /// Milliseconds of all steps and of all that was between them, of all operations.
    total: f64,
}

/// One step of a creation.
struct Step {
    what: &'static str,
    owner: &'static str,
    within: Within,
}

/// Where the time of a step is, if the records have none of its own.
enum Within {
    /// In the one beside it: the next, of what Clusters Service keeps moments of; otherwise the one that was seen before it, which
    /// ends only when a later one is seen.
    Neighbour,
    /// In this one.
    Step(usize),
    /// In each of these that was seen.
    Steps(&'static [usize]),
    Elsewhere(&'static str),
}

const fn step(what: &'static str, owner: &'static str, within: Within) -> Step {
    Step { what, owner, within }
}

/// All of them, in order.
const FLOW: [Step; 14] = [
    step("request enters at the ingress", "frontend", Within::Step(4)),
    step("routed to the resource provider", "frontend", Within::Step(4)),
    step("caller authenticated", "frontend", Within::Step(4)),
    step("validated, stored, asked for", "frontend, backend", Within::Elsewhere("between steps")),
    step("cloud resources prepared", "clusters-service", Within::Elsewhere("between steps")),
    step("manifests posted to Maestro", "clusters-service", Within::Neighbour),
    step("sent to the agent over MQTT", "maestro", Within::Neighbour),
    step("applied by the agents", "maestro, mce", Within::Neighbour),
    step("control plane and node pools made", "hypershift", Within::Neighbour),
    step("ManagedCluster marked available", "mce", Within::Step(9)),
    step("statuses sent back over MQTT", "maestro", Within::Steps(&[7, 8, 9, 10])),
    step("cluster record updated", "clusters-service", Within::Neighbour),
    step("resource and operation updated", "backend", Within::Step(14)),
    step(
        "shown as Succeeded, kubeconfig answers",
        "frontend, gateway",
        Within::Elsewhere("after the operation"),
    ),
];

/// The step that is recorded only where Clusters Service keeps the moments of a creation.
const STATUSES: usize = 11;
/// Those that it has from the numbers which an agent orders its reports with: they are milliseconds.
const REPORTED: RangeInclusive<usize> = 7..=10;

impl Timeline {
    /// An operation, from its acceptance to its end.
    pub(crate) fn push(&mut self, operation: &OperationStatus) {
        self.push_intervals(operation, None);
    }

    /// A creation whose last step is over when its cluster was seen to answer, by the clock of this machine.
    pub(crate) fn push_until(&mut self, operation: &OperationStatus, answering: Timestamp) {
        self.push_intervals(operation, Some(answering));
    }

    fn push_intervals(&mut self, operation: &OperationStatus, answering: Option<Timestamp>) {
        let start = operation.start_time;
        let recorded_end = operation.end_time.unwrap_or(start);
        let mut steps: BTreeMap<usize, Vec<(Timestamp, Timestamp)>> = BTreeMap::new();
        for step in &operation.operations {
            let interval = (step.start_time, step.end_time.unwrap_or(recorded_end));
            steps.entry(step.name.parse().unwrap_or_default()).or_default().push(interval);
        }
        if let Some(answering) = answering {
            steps.entry(FLOW.len()).or_default().push((recorded_end, answering));
        }
        let whole = milliseconds(start, answering.unwrap_or(recorded_end));
        self.total += whole;
        // Steps may overlap, and the first is over before the operation is written down.
        let all = steps.values().flatten().map(|&(from, to)| (from.max(start), to)).collect();
        self.between.push((whole - covered(all)).max(0.0));
        for (number, intervals) in steps {
            self.steps.entry(number).or_default().push(covered(intervals));
        }
    }

    /// One figure for each of the fourteen steps, in order, also for those that take no time or are a part of another.
    pub(crate) fn show_flow(&self, report: &mut Report, what: &str) {
        for number in 1..=FLOW.len() {
            report.figure(self.row(what, number));
        }
        report.figure(self.rest(what));
    }

    /// One figure for each step that was recorded, in order.
    pub(crate) fn show(&self, report: &mut Report, what: &str) {
        for &number in self.steps.keys() {
            report.figure(self.row(what, number));
        }
        report.figure(self.rest(what));
    }

    fn row(&self, what: &str, number: usize) -> Figure {
        let step = number.checked_sub(1).and_then(|index| FLOW.get(index));
        let (title, owner) = step.map_or(("not of the flow", "unknown"), |step| (step.what, step.owner));
        let within = step.map(|step| self.within(number, &step.within)).unwrap_or_default();
        let name = format!("{what}, step {number}, {title}");
        let Some(samples) = self.steps.get(&number) else {
            return Figure::new(name, f64::NAN, "ms").note(format!("{owner}; not recorded apart: {within}"));
        };
        let mut note = format!("{}; {owner}", self.share(samples));
        if samples.largest() <= 0.0 {
            note += &format!("; recorded as one instant, what it took is {within}");
        } else if self.has_moments() && REPORTED.contains(&number) {
            note += "; recorded to the millisecond";
            if samples.median() < 1.0 {
                note += ", and below that";
            }
        }
        if samples.len() < self.between.len() {
            note += &format!("; seen in {} of {}, otherwise {within}", samples.len(), self.between.len());
        }
        Figure::new(name, samples.median(), "ms").note(note)
    }

    /// Where the time of a step is that has none of its own.
    fn within(&self, number: usize, within: &Within) -> String {
        let lasts = |number: &usize| self.steps.get(number).is_some_and(|samples| samples.largest() > 0.0);
        match within {
            Within::Step(other) => format!("in step {other}"),
            Within::Elsewhere(place) => (*place).to_owned(),
            Within::Neighbour => {
                let earlier = || (1..number).rev().find(lasts);
                let later = || (number + 1..=FLOW.len()).find(lasts);
                match if self.has_moments() { later() } else { earlier() } {
                    Some(other) => format!("in step {other}"),
                    None => "between steps".to_owned(),
                }
            }
            Within::Steps(others) => {
                let seen: Vec<_> =
                    others.iter().filter(|other| lasts(other)).map(|other| format!("step {other}")).collect();
                format!("in {}", seen.join(" and "))
            }
        }
    }

    fn has_moments(&self) -> bool {
        self.steps.contains_key(&STATUSES)
    }

    fn rest(&self, what: &str) -> Figure {
        Figure::new(format!("{what}, between steps"), self.between.median(), "ms")
            .note(self.share(&self.between))
    }

    fn share(&self, samples: &Samples) -> String {
        format!("{:.1} % of the whole", samples.sum() / self.total * 100.0)
    }
}

/// Milliseconds in which at least one of these was under way.
fn covered(mut intervals: Vec<(Timestamp, Timestamp)>) -> f64 {
    intervals.sort_unstable();
    let (mut sum, mut reached) = (0.0, Timestamp::MIN);
    for (from, to) in intervals {
        // One that was over before all that counts has no part in it.
        let from = from.max(reached);
        if to > from {
            sum += milliseconds(from, to);
            reached = to;
        }
    }
    sum
}

fn milliseconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::harness::{Render as _, Size};

    fn at(seconds: f64) -> String {
        format!("2026-01-01T00:00:0{seconds:.1}Z")
    }

    fn step(name: &str, component: &str, from: f64, to: f64) -> Value {
        json!({ "name": name, "component": component, "status": "Succeeded", "startTime": at(from),
            "endTime": at(to), "message": "" })
    }

    /// One that takes from second 1 to second 5.
    fn operation(steps: &[Value]) -> OperationStatus {
        let group = "/subscriptions/00000000-0000-0000-0000-000000000001";
        serde_json::from_value(json!({
            "id": group, "name": "00000000-0000-0000-0000-000000000002", "resourceId": group, "status": "Succeeded",
            "startTime": at(1.0), "endTime": at(5.0), "operations": steps,
        }))
        .unwrap()
    }

    fn rows(show: impl FnOnce(&mut Report)) -> Vec<String> {
        let mut report = Report::new("example", Size::Full);
        show(&mut report);
        report.text().lines().filter(|line| line.starts_with("creation")).map(str::to_owned).collect()
    }

    #[test]
    fn steps_that_overlap_count_once_towards_the_whole() {
        let mut timeline = Timeline::default();
        timeline.push(&operation(&[step("4", "backend", 1.0, 2.0), step("12", "service", 1.5, 4.0)]));
        let rows = rows(|report| timeline.show(report, "creation"));
        for (row, (name, value, share)) in rows.iter().zip([
            ("creation, step 4, ", " 1000 ", "25.0 %"),
            ("creation, step 12, ", " 2500 ", "62.5 %"),
            ("creation, between steps", " 1000 ", "25.0 %"),
        ]) {
            assert!(row.starts_with(name) && row.contains(value) && row.contains(share), "{row}");
        }
        assert_eq!(rows.len(), 3, "{rows:?}");
    }

    #[test]
    fn step_that_was_over_before_the_operation_began_takes_nothing_from_it() {
        let mut timeline = Timeline::default();
        timeline.push(&operation(&[step("1", "frontend", 0.0, 0.5), step("4", "backend", 1.0, 2.0)]));
        let rows = rows(|report| timeline.show(report, "creation"));
        assert!(rows[2].contains(" 3000 ") && rows[2].contains("75.0 %"), "{rows:?}");
    }

    #[test]
    fn two_who_share_a_step_are_one_figure() {
        let mut timeline = Timeline::default();
        timeline.push(&operation(&[step("4", "frontend", 1.0, 2.0), step("4", "backend", 1.5, 2.5)]));
        let rows = rows(|report| timeline.show(report, "creation"));
        assert!(rows[0].contains(" 1500 ") && rows[0].contains("37.5 %"), "{rows:?}");
    }

    #[test]
    fn all_fourteen_steps_have_a_row_in_the_order_of_the_flow() {
        let mut timeline = Timeline::default();
        timeline.push(&operation(&[
            step("1", "frontend", 1.0, 1.0),
            step("9", "hypershift", 2.0, 4.0),
            step("7", "maestro", 1.0, 2.0),
        ]));
        let rows = rows(|report| timeline.show_flow(report, "creation"));
        assert_eq!(rows.len(), 15, "{rows:?}");
        for (number, row) in (1..=14).zip(&rows) {
            assert!(row.starts_with(&format!("creation, step {number}, ")), "{row}");
        }
        assert!(rows[0].contains(" 0.000 ") && rows[0].contains("what it took is in step 4"), "{}", rows[0]);
        assert!(rows[6].contains(" 1000 "), "{}", rows[6]);
        for (number, place) in
            [(8, "in step 7"), (10, "in step 9"), (11, "in step 7 and step 9"), (12, "in step 9")]
        {
            let row = &rows[number - 1];
            assert!(row.contains(" – ") && row.ends_with(&format!("not recorded apart: {place}")), "{row}");
        }
    }

    #[test]
    fn a_step_that_clusters_service_did_not_see_apart_is_in_the_next_one() {
        let mut timeline = Timeline::default();
        timeline.push(&operation(&[
            step("6", "service", 1.0, 2.0),
            step("7", "maestro", 2.0, 2.0),
            step("9", "hypershift", 2.0, 3.0),
            step("10", "mce", 3.0, 3.0),
            step("11", "maestro", 3.0, 4.0),
        ]));
        timeline.push(&operation(&[step("10", "mce", 3.0, 3.1), step("11", "maestro", 3.1, 4.0)]));
        let rows = rows(|report| timeline.show_flow(report, "creation"));
        assert!(rows[6].contains("recorded as one instant, what it took is in step 9"), "{}", rows[6]);
        assert!(rows[7].ends_with("not recorded apart: in step 9"), "{}", rows[7]);
        assert!(rows[8].contains("recorded to the millisecond; seen in 1 of 2"), "{}", rows[8]);
        assert!(rows[10].contains(" 900 "), "{}", rows[10]);
    }

    #[test]
    fn a_step_that_was_not_always_seen_says_so() {
        let mut timeline = Timeline::default();
        timeline.push(&operation(&[step("5", "service", 1.0, 2.0), step("6", "service", 2.0, 3.0)]));
        timeline.push(&operation(&[step("5", "service", 1.0, 3.0)]));
        let rows = rows(|report| timeline.show(report, "creation"));
        assert!(rows[1].contains("seen in 1 of 2, otherwise in step 5"), "{rows:?}");
    }

    #[test]
    fn last_step_lasts_until_the_cluster_answers() {
        let mut timeline = Timeline::default();
        timeline.push_until(&operation(&[step("14", "frontend", 5.0, 5.0)]), at(6.0).parse().unwrap());
        let rows = rows(|report| timeline.show_flow(report, "creation"));
        assert!(rows[13].contains(" 1000 ") && rows[13].contains("20.0 %"), "{rows:?}");
        assert!(rows[14].contains(" 4000 ") && rows[14].contains("80.0 %"), "{rows:?}");
    }
}
