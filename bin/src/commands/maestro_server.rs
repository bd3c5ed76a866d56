//! `maestro-server`: keeps bundles of manifests and sends them to agents, alone.

use std::process::ExitCode;

use anyhow::anyhow;
use pilothouse_http::ListenerConfig;
use pilothouse_maestro::BrokerKind;
use pilothouse_maestro::server::{Config, Deps, Service, catalog};
use pilothouse_runtime::config::{self, ConfigArgs, SecretFile};
use pilothouse_runtime::{Process, telemetry};
use serde::{Deserialize, Serialize};

use super::stored::{self, Site, Stored};
use super::{alone, location};
use crate::{Failure, Hint, Output};

/// Run the Maestro server alone: keeps bundles of manifests, and sends them to the agents of management clusters.
///
/// A region runs one by itself. It is configured by a file; `--dump-config` shows every key. Replicas share a PostgreSQL
/// store, each under a client id of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse maestro-server --config maestro.toml
  pilothouse maestro-server --config maestro.toml --client-id maestro-1
  pilothouse maestro-server --config maestro.toml --message-broker-type grpc")]
pub struct Args {
    /// How agents are reached: through an MQTT broker, or by gRPC, which they dial [default: as configured]
    #[arg(long, value_name = "TYPE")]
    message_broker_type: Option<BrokerType>,
    /// What this server is called at the broker and among its replicas [default: as configured]
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// How server and agents speak with each other.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum BrokerType {
    /// Through an MQTT broker.
    Mqtt,
    /// Agents dial the server.
    Grpc,
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
    /// Where health, metrics and debug pages are served.
    #[serde(default = "stored::metrics")]
    metrics: ListenerConfig,
    /// Logs and traces.
    #[serde(default)]
    telemetry: telemetry::Config,
    /// The server itself.
    #[serde(default)]
    service: Config,
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
            .hint("the configuration is named with `--config FILE`; docs/how-to/run-maestro.md has one")?;
        let service = &mut settings.service;
        if let Some(kind) = self.message_broker_type {
            service.broker.kind = kind.into();
        }
        if let Some(id) = &self.client_id {
            service.broker.client_id.clone_from(id);
        }
        // Only a database of its own has room for others.
        if settings.store.starts_with("postgres") && service.replica.is_none() {
            service.replica = Some(service.broker.client_id.clone());
        }
        if self.config.dump_config {
            output.raw(config::dump(&settings)?.as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        let telemetry = self.config.telemetry(settings.telemetry.clone());
        alone::run("maestro-server", &telemetry, start(settings))
    }
}

async fn start(settings: Settings) -> Result<Process, Failure> {
    let Settings { store, store_password_file, store_key_file, metrics, service, .. } = settings;
    let stored = Stored {
        name: "maestro-server",
        place: location::Place {
            location: &store,
            password_file: store_password_file.as_ref(),
            key_file: store_key_file.as_deref(),
        },
        catalog: catalog(),
        metrics: &metrics,
    };
    let build = async |site: Site<'_>| {
        // Its numbers have the names of the original, without any prefix.
        let Site { store, clock, health, registry } = site;
        Service::build(service, Deps { store, clock, health, registry }).await.hint(
            "`service.rest`, `service.grpc` and `service.grpc_broker` of the configuration are its ports",
        )
    };
    stored.start(build, |service: Service, shutdown| async move { Ok(service.run(shutdown).await?) }).await
}

impl From<BrokerType> for BrokerKind {
    fn from(kind: BrokerType) -> Self {
        match kind {
            BrokerType::Mqtt => Self::Mqtt,
            BrokerType::Grpc => Self::Grpc,
        }
    }
}
