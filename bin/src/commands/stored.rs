//! What services over a store have in common when they run alone: the store, the operators' pages, and a life that ends with
//! the store closed.

use std::time::Duration;

use pilothouse_http::{Health, ListenerConfig};
use pilothouse_runtime::{Clock, OnExit, Process, Shutdown, TaskError};
use pilothouse_store::{Catalog, Store};
use prometheus_client::registry::Registry;

use super::alone;
use super::location::Place;
use crate::Failure;

/// How long open requests and running passes may take when it is stopped.
const GRACE: Duration = Duration::from_secs(40);

/// Where the keys of a configuration are explained.
pub(crate) const WHERE: &str =
    "the configuration is named with `--config FILE`; docs/how-to/run-a-service-alone.md has one";

/// A service over a store.
pub(crate) struct Stored<'a> {
    /// The name of the process, and of its tasks.
    pub(crate) name: &'static str,
    /// Where its store is.
    pub(crate) place: Place<'a>,
    /// What the store has in it.
    pub(crate) catalog: Catalog,
    /// Where health, metrics and debug pages are served.
    pub(crate) metrics: &'a ListenerConfig,
}

/// What such a service is built from.
pub(crate) struct Site<'a> {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) health: Health,
    pub(crate) registry: &'a mut Registry,
}

/// Where pages are served unless it is said.
pub(crate) fn metrics() -> ListenerConfig {
    ListenerConfig::loopback(8081)
}

impl Stored<'_> {
    /// Opens the store, builds the service, which takes its ports, and runs it.
    pub(crate) async fn start<S, R, F>(
        self,
        build: impl AsyncFnOnce(Site<'_>) -> Result<S, Failure>,
        serve: R,
    ) -> Result<Process, Failure>
    where
        S: Send + 'static,
        R: FnOnce(S, Shutdown) -> F,
        F: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        let Self { name, place, catalog, metrics } = self;
        let mut process = Process::install(GRACE)?;
        let shutdown = process.shutdown().clone();
        let clock = Clock::system();
        let health = Health::new(shutdown.clone());
        let pages = alone::bind_pages(metrics, &clock).await?;
        let store = place.open(catalog, shutdown.clone()).await?;
        let mut registry = Registry::default();
        let site = Site { store: store.clone(), clock, health: health.clone(), registry: &mut registry };
        let built = build(site).await?;
        process.on_drained("store", async move {
            store.close().await;
            Ok(())
        });
        let tasks = process.tasks(name);
        tasks.spawn(name, OnExit::StopProcess, serve(built, shutdown));
        alone::serve_pages(pages, health, registry, &tasks);
        Ok(process)
    }
}
