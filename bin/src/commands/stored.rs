//! What services over a store have in common when they run alone: the store, the operators' pages, and a life that ends with
//! the store closed.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use pilothouse_http::{Health, ListenerConfig};
use pilothouse_runtime::config::{self, ConfigArgs, SecretFile};
use pilothouse_runtime::{Clock, OnExit, Process, Shutdown, TaskError, telemetry};
use pilothouse_store::{Catalog, Store};
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::alone;
use super::location::Place;
use crate::{Failure, Hint, Output};

/// How long open requests and running passes may take when it is stopped.
const GRACE: Duration = Duration::from_secs(40);

/// Where the keys of a configuration are explained.
pub(crate) const WHERE: &str =
    "the configuration is named with `--config FILE`; docs/how-to/run-a-service-alone.md has one";

/// What the process of a service that needs nobody else is configured with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "C: DeserializeOwned + Default"))]
struct Settings<C> {
    /// The store: a path, or `postgres://user@host/database?schema=name`. A password goes into its own file.
    store: String,
    /// A file with the password of the store's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store_password_file: Option<SecretFile>,
    /// The file with the keys that secrets are sealed with; by default the database's path with `.key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store_key_file: Option<String>,
    /// Where health, metrics and debug pages are served.
    #[serde(default = "metrics")]
    metrics: ListenerConfig,
    /// Logs and traces.
    #[serde(default)]
    telemetry: telemetry::Config,
    /// The service itself.
    #[serde(default)]
    service: C,
}

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

/// Runs a service that needs nobody else until it is stopped, or prints its configuration.
pub(crate) fn run<C, S, R, F>(
    name: &'static str,
    args: &ConfigArgs,
    output: &mut Output,
    catalog: Catalog,
    build: impl AsyncFnOnce(C, Site<'_>) -> Result<S, Failure>,
    serve: R,
) -> Result<ExitCode, Failure>
where
    C: Serialize + DeserializeOwned + Default,
    S: Send + 'static,
    R: FnOnce(S, Shutdown) -> F,
    F: Future<Output = Result<(), TaskError>> + Send + 'static,
{
    let settings: Settings<C> =
        config::load(args, Default::default()).map_err(|error| anyhow!(error)).hint(WHERE)?;
    if args.dump_config {
        output.raw(config::dump(&settings)?.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let telemetry = args.telemetry(settings.telemetry.clone());
    alone::run(name, &telemetry, async move {
        let Settings { store, store_password_file, store_key_file, metrics, service, .. } = settings;
        let place = Place {
            location: &store,
            password_file: store_password_file.as_ref(),
            key_file: store_key_file.as_deref(),
        };
        let stored = Stored { name, place, catalog, metrics: &metrics };
        stored.start(async |site: Site<'_>| build(service, site).await, serve).await
    })
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
        alone::serve_pages(pages, health, registry, &mut process, &tasks);
        Ok(process)
    }
}
