//! The command line of `pilothouse`.

use clap::{Parser, Subcommand};

use crate::commands::{completions, store, version};
use crate::{Failure, Output, OutputArgs};

/// Hosted control planes: ask an API for a cluster, get one.
///
/// Pilothouse is a managed-cluster service. Whoever asks its API for a cluster gets a Kubernetes-style cluster
/// whose control plane is hosted for them; this one binary is the whole chain behind that request.
#[derive(Debug, Parser)]
#[command(
    name = "pilothouse",
    version,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = "\
Examples:
  pilothouse store init --store region.db               Make an empty store and its key file
  pilothouse store check --store region.db              Is everything in it as it should be?
  pilothouse version --output json                      What is this build?
  pilothouse completions bash > pilothouse.bash         Let the shell complete the verbs

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
    Store(store::Args),
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
            Verb::Store(args) => args.run(&mut output),
            Verb::Version(args) => args.run("pilothouse", &mut output),
            Verb::Completions(args) => args.run::<Self>(&mut output),
        }
    }
}
