//! Every budget of the design in one table, with where the time of a creation goes and what very many clusters cost.
//!
//! Nothing is measured here but builds: the benchmarks that have a budget run one after another, and what they say of it is
//! taken out of their reports. One that fails is told of, and the others still run.

mod builds;

use std::panic::AssertUnwindSafe;

use anyhow::anyhow;
use futures::FutureExt as _;

use crate::harness::{Progress, Report, Size, interruption};
use crate::{Benchmark, FleetArgs, RunArgs, UpstreamArgs};

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct BudgetsArgs {
    /// Runs for minutes instead of an hour: shows that the benchmarks work, not what the figures are.
    #[arg(long)]
    sample: bool,
    /// Builds with cargo, too, in a folder that is removed afterwards: takes minutes and gigabytes.
    #[arg(long)]
    builds: bool,
}

/// What came of all of them.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) report: Report,
    /// Those without which the table is not whole.
    pub(crate) failed: Vec<&'static str>,
}

/// A row of the table.
struct Row {
    budget: &'static str,
    benchmark: &'static str,
    /// How the name of the figure begins there.
    figure: &'static str,
}

/// What a benchmark said, or why it did not.
type Said = (&'static str, Result<Report, String>);

const ROWS: &[Row] = &[
    row("pilothouse up → every endpoint ready", "create", "fresh region, start → every endpoint ready"),
    row(
        "PUT cluster → kubeconfig answering, light, p50",
        "create",
        "creation, PUT → kubeconfig answers /readyz, p50",
    ),
    row(
        "PUT cluster → kubeconfig answering, light, p99",
        "create",
        "creation, PUT → kubeconfig answers /readyz, p99",
    ),
    row("creation, step 1 of 14", "create", "creation, step 1, "),
    row("creation, step 2 of 14", "create", "creation, step 2, "),
    row("creation, step 3 of 14", "create", "creation, step 3, "),
    row("creation, step 4 of 14", "create", "creation, step 4, "),
    row("creation, step 5 of 14", "create", "creation, step 5, "),
    row("creation, step 6 of 14", "create", "creation, step 6, "),
    row("creation, step 7 of 14", "create", "creation, step 7, "),
    row("creation, step 8 of 14", "create", "creation, step 8, "),
    row("creation, step 9 of 14", "create", "creation, step 9, "),
    row("creation, step 10 of 14", "create", "creation, step 10, "),
    row("creation, step 11 of 14", "create", "creation, step 11, "),
    row("creation, step 12 of 14", "create", "creation, step 12, "),
    row("creation, step 13 of 14", "create", "creation, step 13, "),
    row("creation, step 14 of 14", "create", "creation, step 14, "),
    row("creation, between steps", "create", "creation, between steps"),
    row("the same with upstream / bare etcd and kube-apiserver", "upstream", "hosted / bare"),
    row("memory of one light hosted cluster, idle", "create", "memory, light hosted cluster, idle"),
    row("memory of the whole idle region", "create", "memory, idle region"),
    row("hosted clusters on one machine, light", "fleet", "clusters that run at once"),
    row("frontend GET, p99 under 64 connections", "frontend", "GET, latency p99"),
    row("MQTT hop, ManifestWork published → applied, p99", "maestro", "publish → applied, p99"),
    row("creation, the last clusters / the first", "fleet", "the last "),
    row("creation, many at once", "fleet", "creation, many at once"),
    row("deletion, many at once", "fleet", "deletion, many at once"),
    row("memory of one of many light hosted clusters, idle", "fleet", "memory, a light hosted cluster, idle"),
    row("memory of the region's own processes with many", "fleet", "memory, the region's own processes"),
    row("memory of everything with many", "fleet", "memory, everything"),
    row("gateway, new cluster routable, p50", "gateway", "new cluster routable, p50"),
    row("gateway, new cluster routable, p99", "gateway", "new cluster routable, p99"),
    row("gateway / HAProxy, bulk", "gateway", "bulk, how many times"),
    row("gateway / HAProxy, new connections", "gateway", "new connections, how many times"),
    row(
        "gateway / HAProxy, a new connection to its answer, p99",
        "gateway",
        "a new connection to its answer, p99, how many times",
    ),
    row("gateway / HAProxy, questions and answers", "gateway", "questions and answers, how many times"),
    row(
        "gateway / HAProxy, a question to its answer, p99",
        "gateway",
        "a question to its answer, p99, how many times",
    ),
];

const fn row(budget: &'static str, benchmark: &'static str, figure: &'static str) -> Row {
    Row { budget, benchmark, figure }
}

/// Those that have the figures.
fn benchmarks(sample: bool) -> [(&'static str, Benchmark); 6] {
    let args = RunArgs { sample };
    [
        ("create", Benchmark::Create(args)),
        // Starts are compared before there are many, whatever many is.
        ("upstream", Benchmark::Upstream(UpstreamArgs { sample, clusters: Some(1) })),
        ("fleet", Benchmark::Fleet(FleetArgs { sample, clusters: None })),
        ("frontend", Benchmark::Frontend(args)),
        ("maestro", Benchmark::Maestro(args)),
        ("gateway", Benchmark::Gateway(args)),
    ]
}

pub(crate) async fn run(args: BudgetsArgs) -> anyhow::Result<Outcome> {
    let mut said = Vec::new();
    let mut outcome = Outcome { report: Report::new("budgets", Size::of(args.sample)), failed: Vec::new() };
    tokio::select! {
        // Whoever wants one benchmark to end wants all of them to.
        biased;
        interrupted = interruption() => interrupted?,
        () = Box::pin(all(args.sample, &mut said)) => {}
    }
    outcome.select(ROWS, &said);
    if !args.builds {
        outcome.report.leave_out(
            "cold release build, and the tests of one service crate after a change: `budgets --builds` takes both",
        );
        return Ok(outcome);
    }
    tokio::select! {
        biased;
        interrupted = interruption() => interrupted?,
        built = Box::pin(builds::measure(&mut outcome.report)) => if let Err(error) = built {
            Progress.say(&format!("error: builds: {error:#}"));
            outcome.fail("builds", "cold release build, and the tests of one service crate after a change", cause(&error));
        }
    }
    Ok(outcome)
}

/// Runs them one after another.
async fn all(sample: bool, said: &mut Vec<Said>) {
    for (name, benchmark) in benchmarks(sample) {
        Progress.say(&format!("benchmark: {name}"));
        // What a benchmark starts with may be a library for tests, which panics.
        let outcome = AssertUnwindSafe(Box::pin(benchmark.run())).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| Err(anyhow!("it panicked; standard error says where")));
        said.push((
            name,
            outcome.map_err(|error| {
                Progress.say(&format!("error: {name}: {error:#}"));
                cause(&error)
            }),
        ));
    }
}

/// The one line at the end of why: what is before it may be a whole log.
fn cause(error: &anyhow::Error) -> String {
    error.root_cause().to_string().lines().next().unwrap_or_default().to_owned()
}

impl Outcome {
    /// One figure, or one line of why there is none, for every row.
    fn select(&mut self, rows: &[Row], said: &[Said]) {
        for Row { budget, benchmark, figure } in rows {
            let found = said.iter().find(|(name, _)| name == benchmark).map(|(_, outcome)| outcome);
            match found {
                Some(Ok(report)) => match (report.find(figure), report.left_out()) {
                    (Some(figure), _) => self.report.figure(figure.taken_from(benchmark, budget)),
                    (None, []) => self.fail(benchmark, budget, "it did not measure this"),
                    (None, why) => self.report.leave_out(format!("{budget}: {}", why.join("; "))),
                },
                Some(Err(cause)) => self.fail(benchmark, budget, cause),
                None => self.fail(benchmark, budget, "it was not run"),
            }
        }
    }

    fn fail(&mut self, benchmark: &'static str, budget: &str, cause: impl std::fmt::Display) {
        self.report.leave_out(format!("{budget}: `{benchmark}` FAILED: {cause}"));
        if !self.failed.contains(&benchmark) {
            self.failed.push(benchmark);
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;
    use crate::harness::{Budget, Figure, Render as _};

    const EXAMPLES: &[Row] = &[
        row("start", "create", "fresh region"),
        row("growth", "fleet", "the last "),
        row("hop", "maestro", "publish"),
        row("ratio", "upstream", "hosted / bare"),
    ];

    fn report(fill: impl FnOnce(&mut Report)) -> Report {
        let mut report = Report::new("example", Size::Sample);
        fill(&mut report);
        report
    }

    fn selected(said: &[Said]) -> (String, Vec<&'static str>) {
        let mut outcome = Outcome { report: report(|_| {}), failed: Vec::new() };
        outcome.select(EXAMPLES, said);
        (outcome.report.text(), outcome.failed)
    }

    #[test]
    fn every_budget_is_a_row_or_a_line_of_why_not() {
        let (text, failed) = selected(&[
            (
                "create",
                Ok(report(|report| {
                    report.figure(
                        Figure::new("fresh region, start", 2.0, "s").budget(Budget::Below(1.0)).note("of 5"),
                    )
                })),
            ),
            ("fleet", Err("disk full".to_owned())),
            ("maestro", Ok(report(|report| report.leave_out("there is no PostgreSQL")))),
            ("upstream", Ok(report(|_| {}))),
        ]);
        let line =
            |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap_or_default().to_owned();
        for part in ["2.00", "MISSED", "create: fresh region, start; of 5"] {
            assert!(line("start ").contains(part), "{part} in {text}");
        }
        assert_eq!(line("left out: growth"), "left out: growth: `fleet` FAILED: disk full");
        assert_eq!(line("left out: hop"), "left out: hop: there is no PostgreSQL");
        assert_eq!(line("left out: ratio"), "left out: ratio: `upstream` FAILED: it did not measure this");
        assert_eq!(failed, ["fleet", "upstream"]);
    }

    #[test]
    fn a_benchmark_that_failed_is_named_once() {
        let mut outcome = Outcome { report: report(|_| {}), failed: Vec::new() };
        outcome.select(
            &[row("one", "create", "a"), row("other", "create", "b")],
            &[("create", Err("why".to_owned()))],
        );
        assert_eq!(outcome.failed, ["create"]);
    }

    #[test]
    fn every_row_has_a_benchmark_that_runs() {
        let names = benchmarks(true).map(|(name, _)| name);
        for Row { budget, benchmark, .. } in ROWS {
            assert!(names.contains(benchmark), "{budget}");
        }
    }

    #[test]
    fn a_cause_is_one_line_without_the_log_before_it() {
        let error =
            Err::<(), _>(anyhow!("refused\nwith details")).context("a log\nof many lines").unwrap_err();
        assert_eq!(cause(&error), "refused");
    }
}
