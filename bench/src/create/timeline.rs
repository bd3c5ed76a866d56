//! Where the time of operations goes, step by step.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pilothouse_arm::OperationStatus;

use crate::harness::{Figure, Report, Samples};

/// The steps of many operations of one kind.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// Milliseconds of each step, by its number and who does it.
    steps: BTreeMap<(u32, String), Samples>,
    /// Milliseconds in which no step was under way.
    between: Samples,
    /// Milliseconds of all steps and of all that was between them, of all operations.
    total: f64,
}

impl Timeline {
    pub(crate) fn push(&mut self, operation: &OperationStatus) {
        let end = operation.end_time.unwrap_or(operation.start_time);
        self.total += milliseconds(operation.start_time, end);
        let (mut covered, mut reached) = (0.0, operation.start_time);
        let mut steps: Vec<_> = operation.operations.iter().collect();
        steps.sort_by_key(|step| step.start_time);
        for step in steps {
            let (from, to) = (step.start_time, step.end_time.unwrap_or(end));
            let key = (step.name.parse().unwrap_or_default(), step.component.clone());
            self.steps.entry(key).or_default().push(milliseconds(from, to));
            // Steps may overlap, and the first is over before the operation is written down.
            if to > reached {
                covered += milliseconds(from.max(reached), to);
                reached = to;
            }
        }
        self.between.push((milliseconds(operation.start_time, end) - covered).max(0.0));
    }

    /// One figure per step; those that are over as soon as they begin are none.
    pub(crate) fn show(&self, report: &mut Report, what: &str) {
        let figure = |name: String, samples: &Samples| {
            let share = samples.sum() / self.total * 100.0;
            Figure::new(name, samples.median(), "ms").note(format!("{share:.0} % of the operation"))
        };
        for ((number, component), samples) in self.steps.iter().filter(|(_, samples)| samples.largest() > 0.0)
        {
            report.figure(figure(format!("{what}, step {number}, {component}"), samples));
        }
        report.figure(figure(format!("{what}, between steps"), &self.between));
    }
}

fn milliseconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::harness::{Render as _, Size};

    #[test]
    fn steps_that_overlap_count_once_towards_the_whole() {
        let at = |seconds: f64| format!("2026-01-01T00:00:0{seconds:.1}Z");
        let step = |name: &str, component: &str, from: f64, to: f64| {
            json!({ "name": name, "component": component, "status": "Succeeded", "startTime": at(from),
                "endTime": at(to), "message": "" })
        };
        let group = "/subscriptions/00000000-0000-0000-0000-000000000001";
        let operation: OperationStatus = serde_json::from_value(json!({
            "id": group, "name": "00000000-0000-0000-0000-000000000002", "resourceId": group, "status": "Succeeded",
            "startTime": at(1.0), "endTime": at(5.0),
            "operations": [step("4", "backend", 1.0, 2.0), step("12", "service", 1.5, 4.0)],
        }))
        .unwrap();
        let mut timeline = Timeline::default();
        timeline.push(&operation);
        let mut report = Report::new("example", Size::Full);
        timeline.show(&mut report, "creation");
        let text = report.text();
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        for (name, value, share) in [
            ("creation, step 4, backend", "1000 ", "25 %"),
            ("creation, step 12, service", "2500 ", "62 %"),
            ("creation, between steps", "1000 ", "25 %"),
        ] {
            let row = row(name);
            assert!(row.contains(value) && row.contains(share), "{row}");
        }
    }
}
