//! What processes have in common that run one thing alone: a life between starting and being stopped, and the operators'
//! pages.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use pilothouse_http::{Health, Listener, ListenerConfig, Operations, Stack};
use pilothouse_runtime::{Clock, OnExit, Process, Reason, Shutdown, TaskError, Tasks, block_on, telemetry};
use prometheus_client::registry::Registry;

use crate::{Failure, Hint};

/// How long pages may take that are being read at the very end.
const LAST_PAGES: Duration = Duration::from_secs(5);

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
///
/// At shutdown it goes on until all tasks of the process have ended: as long as a service takes for that, whoever asks is told
/// that it is not ready any more.
pub(super) fn serve_pages(
    pages: Listener,
    health: Health,
    registry: Registry,
    process: &mut Process,
    tasks: &Tasks,
) {
    let pages = start_pages(pages, health, registry, tasks);
    process.on_drained("pages", close_pages(pages));
}

/// Serves pages until they are closed, as tasks of their own.
fn start_pages(pages: Listener, health: Health, mut registry: Registry, tasks: &Tasks) -> Tasks {
    let http = pilothouse_http::Metrics::new(registry.sub_registry_with_prefix("operations"));
    let status = tasks.clone();
    let router = Operations::new(health, Arc::new(registry))
        .with_page("tasks", move || serde_json::to_value(status.status()).unwrap_or_default())
        .router();
    let router = Stack::new(http.clone()).around(router);
    // Of the pages, not of the process.
    let closing = Shutdown::new();
    let own = Tasks::new("pages", closing.clone());
    let serving = own.clone();
    own.spawn("serve", OnExit::StopProcess, async move { pages.serve(router, http, &serving).await });
    tasks.spawn("metrics", OnExit::StopProcess, watch_pages(closing, tasks.shutdown().clone()));
    own
}

/// Returns at the process's shutdown. Pages that end before it are an error.
async fn watch_pages(pages: Shutdown, process: Shutdown) -> Result<(), TaskError> {
    tokio::select! {
        () = process.requested() => Ok(()),
        () = pages.requested() => failure_of(&pages),
    }
}

/// Ends the pages, in order.
async fn close_pages(pages: Tasks) -> Result<(), TaskError> {
    pages.shutdown().request(Reason::Asked("all tasks of the process have ended".to_owned()));
    pages.drain(LAST_PAGES).await?;
    failure_of(pages.shutdown())
}

fn failure_of(shutdown: &Shutdown) -> Result<(), TaskError> {
    match shutdown.reason() {
        Some(reason) if reason.is_failure() => Err(reason.to_string().into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    async fn readyz(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn pages_say_that_it_stops_until_everything_else_has_ended() {
        let shutdown = Shutdown::new();
        let tasks = Tasks::new("test", shutdown.clone());
        let pages = bind_pages(&ListenerConfig::loopback(0), &Clock::system()).await.unwrap();
        let address = pages.local_address();
        let pages = start_pages(pages, Health::new(shutdown.clone()), Registry::default(), &tasks);
        assert!(readyz(address).await.starts_with("HTTP/1.1 200"));
        shutdown.request(Reason::Asked("the test is over".to_owned()));
        tasks.drain(Duration::from_secs(20)).await.unwrap();
        assert!(readyz(address).await.starts_with("HTTP/1.1 503"));
        close_pages(pages).await.unwrap();
        assert_eq!(shutdown.reason(), Some(Reason::Asked("the test is over".to_owned())));
    }
}
