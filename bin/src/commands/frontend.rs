//! `frontend`: the resource provider's API alone.

use std::process::ExitCode;

use pilothouse_frontend::{Args, Config, Deps, Service};

use super::resource_provider::{self, Site};
use crate::{Failure, Hint, Output};

/// Runs it until it is stopped.
///
/// # Errors
///
/// If it cannot be started.
pub fn run(args: &Args, output: &mut Output) -> Result<ExitCode, Failure> {
    resource_provider::run("frontend", &args.config, output, build, |service: Service, shutdown| async move {
        Ok(service.run(shutdown).await?)
    })
}

async fn build(config: Config, site: Site<'_>) -> Result<Service, Failure> {
    let Site { store, clusters_service, clock, health, registry } = site;
    let deps = Deps { store, clusters_service, clock, health, registry };
    Service::build(config, deps)
        .await
        .hint("docs/how-to/authenticate-callers.md tells how callers are told apart")
}
