//! What frontend and backend have in common when they run alone: a store, the way to Clusters Service, and the operators'
//! pages.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_http::{CertificateSource, ClientBuilder, Health, ListenerConfig, TlsFiles};
use pilothouse_pki::Bundle;
use pilothouse_runtime::config::{self, ConfigArgs, SecretFile};
use pilothouse_runtime::{Clock, OnExit, Process, Shutdown, TaskError, telemetry};
use pilothouse_store::Store;
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{alone, location};
use crate::{Failure, Hint, Output};

/// How long open requests and running passes may take when it is stopped.
const GRACE: Duration = Duration::from_secs(40);
/// One call to Clusters Service.
const CALL: Duration = Duration::from_secs(20);

/// What a process of the resource provider is configured with, beside the service itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Surroundings<C> {
    /// The store: a path, or `postgres://user@host/database?schema=name`. A password goes into its own file.
    store: String,
    /// A file with the password of the store's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store_password_file: Option<SecretFile>,
    /// The file with the keys that secrets are sealed with; by default the database's path with `.key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store_key_file: Option<String>,
    /// Clusters Service.
    clusters_service: ClustersService,
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

/// Where Clusters Service is, and how it is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClustersService {
    /// Its address.
    url: Url,
    /// The authorities that certify it, PEM; without TLS there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authorities: Option<PathBuf>,
    /// The certificate that is shown to it, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<PathBuf>,
    /// Its private key, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<PathBuf>,
}

/// What a service is built from.
pub(crate) struct Site<'a> {
    pub(crate) store: Store,
    pub(crate) clusters_service: clusters_service::Client,
    pub(crate) clock: Clock,
    pub(crate) health: Health,
    pub(crate) registry: &'a mut Registry,
}

fn metrics() -> ListenerConfig {
    ListenerConfig::loopback(8081)
}

/// Runs a service until it is stopped, or prints its configuration. `build` takes its ports, and gives back what runs it.
pub(crate) fn run<C, S, R, F>(
    name: &'static str,
    args: &ConfigArgs,
    output: &mut Output,
    build: impl AsyncFnOnce(C, Site<'_>) -> Result<S, Failure>,
    serve: R,
) -> Result<ExitCode, Failure>
where
    C: Serialize + DeserializeOwned + Default,
    S: Send + 'static,
    R: FnOnce(S, Shutdown) -> F,
    F: Future<Output = Result<(), TaskError>> + Send + 'static,
{
    let config: Surroundings<C> =
        config::load(args, Default::default()).map_err(|error| anyhow!(error)).hint(
            "the configuration is named with `--config FILE`; docs/how-to/run-a-service-alone.md has one",
        )?;
    if args.dump_config {
        output.raw(config::dump(&config)?.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let telemetry = args.telemetry(config.telemetry.clone());
    alone::run(name, &telemetry, start(name, config, build, serve))
}

async fn start<C, S, R, F>(
    name: &'static str,
    config: Surroundings<C>,
    build: impl AsyncFnOnce(C, Site<'_>) -> Result<S, Failure>,
    serve: R,
) -> Result<Process, Failure>
where
    S: Send + 'static,
    R: FnOnce(S, Shutdown) -> F,
    F: Future<Output = Result<(), TaskError>> + Send + 'static,
{
    let mut process = Process::install(GRACE)?;
    let shutdown = process.shutdown().clone();
    let clock = Clock::system();
    let health = Health::new(shutdown.clone());
    let pages = alone::bind_pages(&config.metrics, &clock).await?;
    let store = config.open_store(shutdown.clone()).await?;
    let mut registry = Registry::default();
    let site = Site {
        store: store.clone(),
        clusters_service: config.clusters_service.client(&clock)?,
        clock,
        health: health.clone(),
        registry: registry.sub_registry_with_prefix(name),
    };
    let built = build(config.service, site).await?;
    process.on_drained("store", async move {
        store.close().await;
        Ok(())
    });
    let tasks = process.tasks(name);
    tasks.spawn(name, OnExit::StopProcess, serve(built, shutdown));
    alone::serve_pages(pages, health, registry, &tasks);
    Ok(process)
}

impl<C> Surroundings<C> {
    async fn open_store(&self, shutdown: Shutdown) -> Result<Store, Failure> {
        let place = location::Place {
            location: &self.store,
            password_file: self.store_password_file.as_ref(),
            key_file: self.store_key_file.as_deref(),
        };
        place.open(pilothouse_records::catalog()?, shutdown).await
    }
}

impl ClustersService {
    fn client(&self, clock: &Clock) -> Result<clusters_service::Client, Failure> {
        let mut builder = ClientBuilder::new(CALL).with_clock(clock.clone());
        if let Some(file) = &self.authorities {
            builder = builder.with_authorities(Bundle::load(file)?);
        }
        builder = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let files =
                    TlsFiles { certificate: certificate.clone(), key: key.clone(), client_authorities: None };
                builder.with_identity_from(CertificateSource::load(files, clock.clone())?)
            }
            (None, None) => builder,
            (Some(_), None) | (None, Some(_)) => {
                return Err(anyhow!("a certificate needs its key, and a key its certificate"))
                    .hint("set both `clusters_service.certificate` and `clusters_service.key`");
            }
        };
        Ok(clusters_service::Client::try_new(builder.build()?, &self.url)?)
    }
}
