//! `virt-controller`: virtual machines as processes, alone.

use std::process::ExitCode;

use pilothouse_virt::{Config, Deps, Service};

use super::operator::{self, OperatorArgs, Site};
use crate::{Failure, Output};

/// Run the controller of virtual machines alone, on a Kubernetes whose nodes are ours: each VirtualMachine becomes a process.
///
/// A region runs one by itself. Where a real KubeVirt is, this must not run: both would make the same machines.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse virt-controller --kubeconfig management.kubeconfig")]
pub struct Args {
    #[command(flatten)]
    operator: OperatorArgs,
}

impl Args {
    /// Runs until it is stopped.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn run(&self, output: &mut Output) -> Result<ExitCode, Failure> {
        operator::run(
            "virt-controller",
            &self.operator,
            output,
            async |config: Config, site: Site<'_>| {
                let Site { management, clock, .. } = site;
                Ok(Service::new(config, Deps { client: management.client(), clock }))
            },
            |service: Service, shutdown| async move { Ok(service.run(shutdown).await?) },
        )
    }
}
