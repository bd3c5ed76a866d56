//! The command line of `hcp`.
//!
//! It talks to a management cluster as any client would. Although it shares this package with `pilothouse`, it must not
//! reach into the services or the store.
//!
//! What is to be made is drawn up first, as plain objects (`objects`), and then either printed (`render`) or applied
//! (`client`): the two cannot differ.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::runtime;

use crate::commands::completions;
use crate::{Failure, Output, OutputArgs, exit_code};

mod client;
mod create;
mod destroy;
mod kubevirt;
mod objects;
mod progress;
mod render;
mod values;
mod version;

/// What the program is called.
pub(crate) const NAME: &str = "hcp";

/// Hosted clusters, for whoever uses them.
///
/// `hcp` speaks to the Kubernetes API of a management cluster, where hosted clusters and their node pools are
/// ordinary objects. Whoever runs the service behind it wants `pilothouse` instead.
#[derive(Debug, Parser)]
#[command(
    name = NAME,
    version,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = "\
Examples:
  hcp create cluster kubevirt --name guest --namespace hcp --node-pool-replicas 3 \\
      --pull-secret pull-secret.json --release-image quay.io/openshift-release-dev/ocp-release:4.20.0-multi
  hcp create kubeconfig --name guest --namespace hcp > guest.kubeconfig
  hcp create nodepool kubevirt --name more --cluster-name guest --namespace hcp --replicas 2
  hcp destroy cluster kubevirt --name guest --namespace hcp
  hcp completions bash > hcp.bash         Let the shell complete the verbs

The management cluster is the one of KUBECONFIG or --kubeconfig, as for kubectl.
Data goes to standard output, everything else to standard error.
Exit codes: 0 done, 1 failed, 2 the command line was not understood."
)]
pub struct Args {
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(create::Args),
    Destroy(destroy::Args),
    Version(version::Args),
    Completions(completions::Args),
}

/// The whole of `main`.
pub fn main() -> ExitCode {
    exit_code(Args::parse().run().map(|()| ExitCode::SUCCESS))
}

impl Args {
    /// Carries out what the command line asks for.
    ///
    /// # Errors
    ///
    /// If the verb fails.
    pub fn run(self) -> Result<(), Failure> {
        let mut output = Output::stdout(self.output);
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        match self.verb {
            Verb::Create(args) => runtime.block_on(args.run(&mut output)),
            Verb::Destroy(args) => runtime.block_on(args.run()),
            Verb::Version(args) => runtime.block_on(args.run(&mut output)),
            Verb::Completions(args) => args.run::<Self>(&mut output),
        }
    }
}
