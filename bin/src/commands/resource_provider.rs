//! What frontend and backend have in common when they run alone: a store, the way to Clusters Service, and the operators'
//! pages.

use std::process::ExitCode;

use anyhow::anyhow;
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_http::{Health, ListenerConfig};
use pilothouse_runtime::config::{self, ConfigArgs, SecretFile};
use pilothouse_runtime::{Clock, Process, Shutdown, TaskError, telemetry};
use pilothouse_store::Store;
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::peer::Peer;
use super::stored::{self, Stored};
use super::{alone, location};
use crate::{Failure, Hint, Output};

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
    clusters_service: Peer,
    /// Where health, metrics and debug pages are served.
    #[serde(default = "stored::metrics")]
    metrics: ListenerConfig,
    /// Logs and traces.
    #[serde(default)]
    telemetry: telemetry::Config,
    /// The service itself.
    #[serde(default)]
    service: C,
}

/// What a service is built from.
pub(crate) struct Site<'a> {
    pub(crate) store: Store,
    pub(crate) clusters_service: clusters_service::Client,
    pub(crate) clock: Clock,
    pub(crate) health: Health,
    pub(crate) registry: &'a mut Registry,
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
        config::load(args, Default::default()).map_err(|error| anyhow!(error)).hint(stored::WHERE)?;
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
    let Surroundings {
        store, store_password_file, store_key_file, clusters_service, metrics, service, ..
    } = config;
    let stored = Stored {
        name,
        place: location::Place {
            location: &store,
            password_file: store_password_file.as_ref(),
            key_file: store_key_file.as_deref(),
        },
        catalog: pilothouse_records::catalog()?,
        metrics: &metrics,
    };
    let build = async |site: stored::Site<'_>| {
        let stored::Site { store, clock, health, registry } = site;
        let http = clusters_service.client(&clock)?.build()?;
        let clusters_service = clusters_service::Client::try_new(http, &clusters_service.url)?;
        let registry = registry.sub_registry_with_prefix(name);
        build(service, Site { store, clusters_service, clock, health, registry }).await
    };
    stored.start(build, serve).await
}
