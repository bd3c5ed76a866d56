//! What a benchmark hands over: its figures and what they were measured on.

use std::thread;

use comfy_table::CellAlignment;
use serde::Serialize;

use super::{Figure, Progress, Render, Size, table};

/// The outcome of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    benchmark: &'static str,
    sample: bool,
    conditions: Vec<Condition>,
    figures: Vec<Figure>,
    /// What could not be measured here, and why.
    left_out: Vec<String>,
}

/// Something without which the figures cannot be compared.
#[derive(Debug, Serialize)]
struct Condition {
    name: &'static str,
    value: String,
}

impl Report {
    pub(crate) fn new(benchmark: &'static str, size: Size) -> Self {
        let sample = size == Size::Sample;
        let mut report =
            Self { benchmark, sample, conditions: Vec::new(), figures: Vec::new(), left_out: Vec::new() };
        let build = if cfg!(debug_assertions) { "debug (budgets are for release)" } else { "release" };
        report.condition("build", build);
        report.condition("run", size.pick("full", "sample (values say little)"));
        let processors =
            thread::available_parallelism().map_or_else(|_| "unknown".to_owned(), |count| count.to_string());
        report.condition("processors", processors);
        report
    }

    pub(crate) fn condition(&mut self, name: &'static str, value: impl Into<String>) {
        self.conditions.push(Condition { name, value: value.into() });
    }

    /// Adds a figure, and tells whoever watches.
    pub(crate) fn figure(&mut self, figure: Figure) {
        let [name, value, unit, budget, met, _] = figure.cells();
        let verdict = if budget.is_empty() { String::new() } else { format!(" ({budget}: {met})") };
        Progress.say(&format!("  {name}: {value} {unit}{verdict}"));
        self.figures.push(figure);
    }

    /// The first figure whose name begins like this.
    pub(crate) fn find(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name().starts_with(name))
    }

    /// What could not be measured, and why.
    pub(crate) fn left_out(&self) -> &[String] {
        &self.left_out
    }

    pub(crate) fn leave_out(&mut self, what: impl Into<String>) {
        self.left_out.push(what.into());
    }
}

impl Render for Report {
    fn text(&self) -> String {
        let mut text = format!("benchmark: {}\n", self.benchmark);
        for Condition { name, value } in &self.conditions {
            text += &format!("{name}: {value}\n");
        }
        let mut table = table(["Figure", "Value", "Unit", "Budget", "Met", "Note"]);
        for figure in &self.figures {
            table.add_row(figure.cells());
        }
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        text += &table.trim_fmt();
        text.push('\n');
        for what in &self.left_out {
            text += &format!("left out: {what}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Budget;

    #[test]
    fn table_says_what_was_missed_and_what_was_left_out() {
        let mut report = Report::new("example", Size::Sample);
        report.figure(Figure::new("latency, p99", 2.5, "ms").budget(Budget::Below(2.0)).note("of 10"));
        report.figure(Figure::new("rate", 1234.0, "1/s"));
        report.leave_out("the rest");
        let text = report.text();
        for part in ["benchmark: example", "< 2", "MISSED", "of 10", "1234", "left out: the rest"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn figures_are_found_by_how_their_names_begin() {
        let mut report = Report::new("example", Size::Full);
        report.figure(Figure::new("latency, p50", 1.0, "ms"));
        report.figure(Figure::new("latency, p99", 2.0, "ms"));
        assert_eq!(report.find("latency").map(Figure::name), Some("latency, p50"));
        assert_eq!(report.find("latency, p99").map(Figure::name), Some("latency, p99"));
        assert!(report.find("p99").is_none());
    }

    #[test]
    fn json_has_numbers_and_verdicts() {
        let mut report = Report::new("example", Size::Full);
        report.figure(Figure::new("ratio", 16.0, "×").budget(Budget::AtLeast(15.0)));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["figures"][0]["value"], 16.0);
        assert_eq!(json["figures"][0]["budget"]["at_least"], 15.0);
        assert_eq!(json["figures"][0]["met"], true);
        assert_eq!(json["sample"], false);
    }
}
