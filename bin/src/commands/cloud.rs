//! `cloud`: the local cloud's resource manager, alone.

use std::process::ExitCode;

use pilothouse_cloud::{Config, Deps, Service, catalog};
use pilothouse_runtime::config::ConfigArgs;

use super::stored::{self, Site};
use crate::{Failure, Hint, Output};

/// Run the local cloud's resource manager alone: resource groups and what is in them, for regions without a cloud.
///
/// A region runs one by itself. It is configured by a file; `--dump-config` shows every key. Clusters Service calls it. Off
/// the loopback it wants callers with certificates.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse cloud --config cloud.toml")]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

impl Args {
    /// Runs until it is stopped.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn run(&self, output: &mut Output) -> Result<ExitCode, Failure> {
        stored::run(
            "cloud",
            &self.config,
            output,
            catalog(),
            build,
            |service: Service, shutdown| async move { Ok(service.run(shutdown).await?) },
        )
    }
}

async fn build(config: Config, site: Site<'_>) -> Result<Service, Failure> {
    let Site { store, clock, health, registry } = site;
    Service::build(config, Deps { store, clock, health, registry })
        .await
        .hint("`service.listener` of the configuration is its port")
}
