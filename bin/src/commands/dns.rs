//! `dns`: the name server of a region, alone.

use std::process::ExitCode;

use pilothouse_cloud::names_catalog;
use pilothouse_dns::{Config, Deps, Service};
use pilothouse_region::CloudNames;
use pilothouse_runtime::config::ConfigArgs;

use super::stored::{self, Site};
use crate::{Failure, Hint, Output};

/// Run the name server alone: it answers for the names of clusters, from the zones that the local cloud keeps.
///
/// A region runs one by itself. It is configured by a file; `--dump-config` shows every key. It reads the cloud's own store, so
/// that store has to be one that several processes may open: PostgreSQL. It needs no key of that store: nothing it reads is
/// secret.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse dns --config dns.toml
  dig @127.0.0.1 -p 5300 api.first.pilothouse.test")]
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
        let catalog = names_catalog();
        stored::run("dns", &self.config, output, catalog, build, |service: Service, shutdown| async move {
            Ok(service.run(shutdown).await?)
        })
    }
}

async fn build(config: Config, site: Site<'_>) -> Result<Service, Failure> {
    let Site { store, health, registry, .. } = site;
    Service::build(config, Deps { source: Box::new(CloudNames::new(store)), health, registry })
        .await
        .hint("`service.listen` of the configuration is its port, over UDP and TCP")
}
