//! What Pilothouse costs, measured: figures as a table for people or as JSON for programs.
//!
//! ```text
//! cargo run --release -p pilothouse-bench -- list
//! cargo run --release -p pilothouse-bench -- budgets
//! cargo run --release -p pilothouse-bench -- create
//! cargo run --release -p pilothouse-bench -- fleet
//! cargo run --release -p pilothouse-bench -- frontend
//! cargo run --release -p pilothouse-bench -- gateway
//! cargo run --release -p pilothouse-bench -- hosted
//! cargo run --release -p pilothouse-bench -- kubeapi
//! cargo run --release -p pilothouse-bench -- maestro
//! cargo run --release -p pilothouse-bench -- node
//! cargo run --release -p pilothouse-bench -- store
//! cargo run --release -p pilothouse-bench -- upstream
//! cargo run --release -p pilothouse-bench -- store --output json
//! cargo run -p pilothouse-bench -- store --sample
//! ```
//!
//! # How to read the table
//!
//! - **The lines above it** say what was measured on: file system, processors, size of the run, servers and their
//!   settings. Figures of two runs compare only if these are the same.
//! - **Figure, value, unit**: one measurement each. A name with `p99` is the value that 99 in 100 samples stay
//!   within; without it, the value is a median.
//! - **Budget, met**: what is wanted, where something is. A missed budget is printed and nothing more; the exit
//!   code is 0 unless something broke. Budgets are for release builds, and for a machine with nothing else to do.
//! - **Ratios (unit `×`)** are of two things measured in turns in the same run, so that a busy machine slows
//!   both. Prefer them to absolute values when judging a change.
//! - **Note**: how it was measured, and the spread where there is one.
//! - **Left out** says which figures are missing because the machine lacks a server, and how to get it.
//!
//! `budgets` has one row for every budget of the design, for every step of a creation, and for what very many clusters
//! cost, and says of each which benchmark it is from. It fails if one of those did, after the others have run.
//!
//! `--sample` is for tests: the same table from a run of seconds. It shows that the benchmark works; its values
//! say little.
//!
//! # Adding a benchmark
//!
//! One file, `src/NAME.rs`, with a function that fills a [`Report`]; one variant of [`Benchmark`]. What measures,
//! compares and prints is in `harness`.

mod budgets;
mod create;
mod fleet;
mod frontend;
mod gateway;
mod harness;
mod hosted;
mod kubeapi;
mod maestro;
mod node;
mod store;
mod upstream;

use std::process::ExitCode;

use anyhow::ensure;
use clap::{Parser, Subcommand};

use crate::harness::{Catalogue, Format, Progress, Report, Size, is_pilothouse};

/// Figures of Pilothouse, with their budgets.
#[derive(Debug, Parser)]
#[command(name = "pilothouse-bench")]
struct Args {
    /// How to print the figures: for reading, or for other programs.
    #[arg(long, value_enum, global = true, default_value_t = Format::Table, value_name = "FORMAT")]
    output: Format,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists the benchmarks.
    List,
    /// Every budget in one table, out of all benchmarks that have one.
    Budgets(budgets::BudgetsArgs),
    /// Frontend and backend in a process of their own, for the benchmark of the frontend.
    #[command(hide = true)]
    Serve(frontend::ServeArgs),
    #[command(flatten)]
    Run(Benchmark),
}

/// Every benchmark there is. The first line of its comment describes it in the list.
#[derive(Clone, Debug, Subcommand)]
enum Benchmark {
    /// A region and its clusters: start, creation step by step, deletion, memory.
    Create(RunArgs),
    /// Very many clusters in a region: how fast they come and go, the last beside the first, memory, idle processor.
    Fleet(FleetArgs),
    /// The resource provider: GET, durable PUT, reaction, memory, 100,000 clusters.
    Frontend(RunArgs),
    /// The gateway beside HAProxy: bulk, new connections, questions and answers.
    Gateway(RunArgs),
    /// Hosted clusters: created to available, their nodes, many on one machine, memory, idle processor.
    Hosted(HostedArgs),
    /// Our Kubernetes API server beside etcd and kube-apiserver: start, memory, creates, GETs, lists, watches.
    Kubeapi(RunArgs),
    /// Maestro beside the original: creates, first statuses, lists, a thousand agents, memory.
    Maestro(RunArgs),
    /// A node: pods started one by one and all at once, memory, idle processor, the way through a Service.
    Node(RunArgs),
    /// The store on SQLite and PostgreSQL: writes, feeds, opening, lists, reads.
    Store(RunArgs),
    /// Hosted clusters of Kubernetes itself beside its bare programs: start, memory, many on one machine, an upgrade under a probe.
    Upstream(UpstreamArgs),
}

#[derive(Clone, Copy, Debug, clap::Args)]
struct RunArgs {
    /// Runs for seconds instead of minutes: shows that the benchmark works, not what the figures are.
    #[arg(long)]
    sample: bool,
}

#[derive(Clone, Copy, Debug, clap::Args)]
struct HostedArgs {
    /// Runs for seconds instead of minutes: shows that the benchmark works, not what the figures are.
    #[arg(long)]
    sample: bool,
    /// How many hosted clusters there are in the end; the figures are for 200.
    #[arg(long, value_name = "NUMBER", conflicts_with = "sample")]
    clusters: Option<usize>,
}

#[derive(Clone, Copy, Debug, clap::Args)]
struct FleetArgs {
    /// Runs for seconds instead of minutes: shows that the benchmark works, not what the figures are.
    #[arg(long)]
    sample: bool,
    /// How many clusters there are in the end; the figures are for 1000.
    #[arg(long, value_name = "NUMBER", conflicts_with = "sample")]
    clusters: Option<usize>,
}

#[derive(Clone, Copy, Debug, clap::Args)]
struct UpstreamArgs {
    /// Runs for seconds instead of minutes: shows that the benchmark works, not what the figures are.
    #[arg(long)]
    sample: bool,
    /// How many clusters there are at once; the figures are for 20 on a machine with 24 GiB.
    #[arg(long, value_name = "NUMBER", conflicts_with = "sample")]
    clusters: Option<usize>,
}

fn main() -> ExitCode {
    // In a pod it is called `pilothouse`, too.
    if let Some(code) = node::in_a_pod() {
        return code;
    }
    // Before anything else: some of what `pilothouse` does has to be alone in its process.
    if is_pilothouse() {
        return pilothouse_commands::pilothouse::main();
    }
    let Args { output, verb } = Args::parse();
    match run(output, verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            Progress.say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(output: Format, verb: Verb) -> anyhow::Result<()> {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match verb {
        Verb::List => output.print(&Catalogue::of::<Benchmark>()),
        Verb::Budgets(args) => {
            let budgets::Outcome { report, failed } = runtime()?.block_on(budgets::run(args))?;
            output.print(&report)?;
            ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
            Ok(())
        }
        Verb::Serve(args) => runtime()?.block_on(frontend::serve(args)),
        Verb::Run(benchmark) => output.print(&runtime()?.block_on(benchmark.run())?),
    }
}

impl Benchmark {
    async fn run(self) -> anyhow::Result<Report> {
        match self {
            Self::Create(args) => create::run(Size::of(args.sample)).await,
            Self::Fleet(args) => Box::pin(fleet::run(Size::of(args.sample), args.clusters)).await,
            Self::Frontend(args) => frontend::run(Size::of(args.sample)).await,
            Self::Gateway(args) => Box::pin(gateway::run(Size::of(args.sample))).await,
            Self::Hosted(args) => Box::pin(hosted::run(Size::of(args.sample), args.clusters)).await,
            Self::Kubeapi(args) => kubeapi::run(Size::of(args.sample)).await,
            Self::Maestro(args) => Box::pin(maestro::run(Size::of(args.sample))).await,
            Self::Node(args) => node::run(Size::of(args.sample)).await,
            Self::Store(args) => store::run(Size::of(args.sample)).await,
            Self::Upstream(args) => Box::pin(upstream::run(Size::of(args.sample), args.clusters)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_benchmark_is_listed_with_a_description() {
        for entry in Catalogue::of::<Benchmark>().entries() {
            assert!(!entry.about.is_empty(), "{}", entry.name);
        }
    }
}
