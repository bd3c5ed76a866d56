//! The command line of `hcp`.
//!
//! It talks to a region as any client would. Although it shares this package with `pilothouse`, it must not reach
//! into the services or the store.

use clap::{Parser, Subcommand};

use crate::commands::{completions, version};
use crate::{Failure, Output, OutputArgs};

/// Hosted clusters, for whoever uses them.
///
/// `hcp` speaks to the Kubernetes API of a management cluster, where hosted clusters and their node pools are
/// ordinary objects. Whoever runs the service behind it wants `pilothouse` instead.
#[derive(Debug, Parser)]
#[command(
    name = "hcp",
    version,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = "\
Examples:
  hcp version --output json               What is this build?
  hcp completions bash > hcp.bash         Let the shell complete the verbs

Data goes to standard output, everything else to standard error.
Exit codes: 0 done, 1 failed, 2 the command line was not understood."
)]
pub struct Args {
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: Verb,
}

/// One file of `commands/` each.
#[derive(Debug, Subcommand)]
enum Verb {
    Version(version::Args),
    Completions(completions::Args),
}

impl Args {
    /// Carries out what the command line asks for.
    ///
    /// # Errors
    ///
    /// If the verb fails.
    pub fn run(self) -> Result<(), Failure> {
        let mut output = Output::stdout(self.output);
        match self.verb {
            Verb::Version(args) => args.run("hcp", &mut output),
            Verb::Completions(args) => args.run::<Self>(&mut output),
        }
    }
}
