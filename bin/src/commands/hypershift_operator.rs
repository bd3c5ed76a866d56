//! `hypershift-operator`: what turns hosted clusters into control planes, alone.

use std::process::ExitCode;

use pilothouse_hypershift::{Config, Deps, Service};

use super::operator::{self, OperatorArgs, Site};
use crate::{Failure, Output};

/// Run the operator for hosted clusters alone, on any Kubernetes: HostedClusters become control planes, NodePools nodes.
///
/// A region runs one by itself. What has no flag is set in a file; `--dump-config` shows every key. Custom resources that
/// the cluster does not have are made.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse hypershift-operator --kubeconfig management.kubeconfig
  pilothouse hypershift-operator --config operator.toml --dump-config")]
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
            "hypershift-operator",
            &self.operator,
            output,
            build,
            |service: Service, shutdown| async move { Ok(service.run(shutdown).await?) },
        )
    }
}

async fn build(config: Config, site: Site<'_>) -> Result<Service, Failure> {
    let Site { management, clock, registry, tasks, .. } = site;
    management.announce_hypershift(clock.clone(), &tasks);
    Ok(Service::build(config, Deps { client: management.client(), clock, registry }).await?)
}
