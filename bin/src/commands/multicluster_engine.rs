//! `multicluster-engine`: managed clusters and the work agent, alone.

use std::process::ExitCode;

use pilothouse_mce::{Config, Deps, Service};

use super::operator::{self, OperatorArgs, Site};
use crate::{Failure, Hint, Output};

/// Run the multicluster engine alone, on any Kubernetes: managed clusters, works of `local-cluster`, downloads of hcp.
///
/// A region runs one by itself. What has no flag is set in a file; `--dump-config` shows every key. Custom resources that
/// the cluster does not have are made.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse multicluster-engine --kubeconfig management.kubeconfig
  pilothouse multicluster-engine --config engine.toml --dump-config")]
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
            "multicluster-engine",
            &self.operator,
            output,
            build,
            |service: Service, shutdown| async move { Ok(service.run(shutdown).await?) },
        )
    }
}

async fn build(mut config: Config, site: Site<'_>) -> Result<Service, Failure> {
    let Site { management, clock, registry, .. } = site;
    config.api_url.get_or_insert_with(|| management.url().to_owned());
    Service::build(config, Deps { client: management.client(), clock, registry })
        .await
        .hint("`service.downloads.listener.address` of the configuration is another; port 0 takes a free one")
}
