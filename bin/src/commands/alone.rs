//! What processes have in common that run one thing alone: a life between starting and being stopped, and the operators'
//! pages.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use pilothouse_http::{Health, Listener, ListenerConfig, Operations, Stack};
use pilothouse_runtime::{Clock, OnExit, Process, Tasks, block_on, telemetry};
use prometheus_client::registry::Registry;

use crate::{Failure, Hint};

/// Starts a process and runs it until it is stopped.
pub(super) fn run(
    name: &'static str,
    telemetry: &telemetry::Config,
    start: impl Future<Output = Result<Process, Failure>>,
) -> Result<ExitCode, Failure> {
    live(name, telemetry, async { Ok(Box::pin(start).await?.run().await) })
}

/// The same of a process that runs itself: `life` ends when it is stopped.
pub(super) fn live(
    name: &'static str,
    telemetry: &telemetry::Config,
    life: impl Future<Output = Result<pilothouse_runtime::ExitCode, Failure>>,
) -> Result<ExitCode, Failure> {
    let _telemetry = telemetry::install(name, telemetry)
        .map_err(|error| anyhow!(error))
        .hint("a filter is a level, or a list such as `info,pilothouse_store=debug`")?;
    let mut outcome = Ok(());
    let code = block_on(async {
        match Box::pin(life).await {
            Ok(code) => code,
            Err(failure) => {
                outcome = Err(failure);
                pilothouse_runtime::ExitCode::NotStarted
            }
        }
    });
    outcome.map(|()| code.into())
}

/// Takes the port for the operators' pages. Before anything else is done: whoever has it already is the likelier mistake.
pub(super) async fn bind_pages(config: &ListenerConfig, clock: &Clock) -> Result<Listener, Failure> {
    Listener::bind("the metrics' listener", config, clock)
        .await
        .hint("`metrics.address` of the configuration is another; port 0 takes a free one")
}

/// Serves health, metrics and what the tasks are at. The registry is complete by now.
pub(super) fn serve_pages(pages: Listener, health: Health, mut registry: Registry, tasks: &Tasks) {
    let http = pilothouse_http::Metrics::new(registry.sub_registry_with_prefix("operations"));
    let status = tasks.clone();
    let router = Operations::new(health, Arc::new(registry))
        .with_page("tasks", move || serde_json::to_value(status.status()).unwrap_or_default())
        .router();
    let router = Stack::new(http.clone()).around(router);
    let own = tasks.clone();
    tasks.spawn("metrics", OnExit::StopProcess, async move { pages.serve(router, http, &own).await });
}
