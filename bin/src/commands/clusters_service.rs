//! `clusters-service`: clusters and node pools, alone.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use pilothouse_clusters_service::{Config, Deps, SOURCE_ID, Service, catalog};
use pilothouse_http::ListenerConfig;
use pilothouse_maestro_api::{Dial, RestClient, SourceClient};
use pilothouse_runtime::config::{self, ConfigArgs, SecretFile};
use pilothouse_runtime::{Clock, Process, telemetry};
use serde::{Deserialize, Serialize};

use super::peer::Peer;
use super::stored::{self, Site, Stored};
use super::{alone, location};
use crate::{Failure, Hint, Output};

/// Run Clusters Service alone: hands clusters to management clusters, and keeps what has become of them.
///
/// A region runs one by itself. It is configured by a file; `--dump-config` shows every key. Frontends and backends call
/// it; it calls Maestro and the cloud's resource manager. Off the loopback it wants callers with certificates.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse clusters-service --config clusters-service.toml
  pilothouse clusters-service --config clusters-service.toml --dump-config")]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

/// What the process is configured with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// The store: a path, or `postgres://user@host/database?schema=name`. A password goes into its own file.
    store: String,
    /// A file with the password of the store's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store_password_file: Option<SecretFile>,
    /// The file with the keys that secrets are sealed with; by default the database's path with `.key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store_key_file: Option<String>,
    /// Maestro.
    maestro: Maestro,
    /// The cloud's resource manager.
    cloud: Peer,
    /// Where health, metrics and debug pages are served.
    #[serde(default = "stored::metrics")]
    metrics: ListenerConfig,
    /// Logs and traces.
    #[serde(default)]
    telemetry: telemetry::Config,
    /// The service itself.
    #[serde(default)]
    service: Config,
}

/// Maestro's two interfaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Maestro {
    /// Where bundles are read.
    rest: Peer,
    /// Where bundles are published, and heard of.
    grpc: Peer,
    /// A file with a token for the latter, where it asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_file: Option<PathBuf>,
}

impl Args {
    /// Runs until it is stopped.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn run(&self, output: &mut Output) -> Result<ExitCode, Failure> {
        let mut settings: Settings = config::load(&self.config, Default::default())
            .map_err(|error| anyhow!(error))
            .hint(stored::WHERE)?;
        settings.service.cloud = settings.cloud.url.to_string();
        // What a shard shows of Maestro is what the service itself uses, unless it says otherwise.
        for shard in &mut settings.service.shards {
            let shown = [
                (&mut shard.maestro_rest_url, &settings.maestro.rest.url),
                (&mut shard.maestro_grpc_url, &settings.maestro.grpc.url),
            ];
            for (shown, url) in shown {
                if shown.is_empty() {
                    *shown = url.to_string();
                }
            }
        }
        if self.config.dump_config {
            output.raw(config::dump(&settings)?.as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        let telemetry = self.config.telemetry(settings.telemetry.clone());
        alone::run("clusters-service", &telemetry, start(settings))
    }
}

async fn start(settings: Settings) -> Result<Process, Failure> {
    let Settings { store, store_password_file, store_key_file, maestro, cloud, metrics, service, .. } =
        settings;
    let stored = Stored {
        name: "clusters-service",
        place: location::Place {
            location: &store,
            password_file: store_password_file.as_ref(),
            key_file: store_key_file.as_deref(),
        },
        catalog: catalog(),
        metrics: &metrics,
    };
    let build = async |site: Site<'_>| {
        let Site { store, clock, health, registry } = site;
        let deps = Deps {
            store,
            http: cloud.client(&clock)?.build()?,
            maestro: RestClient::try_new(maestro.rest.client(&clock)?.build()?, maestro.rest.url.as_str())?,
            source: maestro.source(&clock)?,
            clock,
            health,
            registry,
        };
        Service::build(service, deps)
            .await
            .hint("`service.listener` of the configuration is its port, and `service.shards` are its management clusters")
    };
    stored.start(build, |service: Service, shutdown| async move { Ok(service.run(shutdown).await?) }).await
}

impl Maestro {
    fn source(&self, clock: &Clock) -> Result<SourceClient, Failure> {
        // The gRPC library takes no path, not even an empty one.
        let url = self.grpc.url.as_str().trim_end_matches('/').to_owned();
        let tls = match self.grpc.url.scheme() {
            "https" => Some(self.grpc.client(clock)?.tls()?),
            _ => None,
        };
        let dial = Dial { url, tls, token_file: self.token_file.clone() };
        SourceClient::dial(dial, SOURCE_ID, clock.clone())
            .hint("`maestro.grpc.url` is an address; with `https` it needs `authorities`")
    }
}
