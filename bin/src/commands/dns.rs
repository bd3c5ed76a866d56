//! `dns`: the name server of a region, alone.

use std::process::ExitCode;

use anyhow::anyhow;
use pilothouse_cloud::catalog;
use pilothouse_dns::{Config, Deps, Service};
use pilothouse_http::ListenerConfig;
use pilothouse_region::CloudNames;
use pilothouse_runtime::config::{self, ConfigArgs, SecretFile};
use pilothouse_runtime::{Process, telemetry};
use serde::{Deserialize, Serialize};

use super::stored::{self, Site, Stored};
use super::{alone, location};
use crate::{Failure, Hint, Output};

/// Run the name server alone: it answers for the names of clusters, from the zones that the local cloud keeps.
///
/// A region runs one by itself. It is configured by a file; `--dump-config` shows every key. It reads the cloud's own store, so
/// that store has to be one that several processes may open: PostgreSQL.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse dns --config dns.toml
  dig @127.0.0.1 -p 5300 api.first.pilothouse.test")]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

/// What the process is configured with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// The store of the cloud: `postgres://user@host/database?schema=name`. A password goes into its own file.
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
    /// The name server itself.
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
        let settings: Settings = config::load(&self.config, Default::default())
            .map_err(|error| anyhow!(error))
            .hint(stored::WHERE)?;
        if self.config.dump_config {
            output.raw(config::dump(&settings)?.as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        let telemetry = self.config.telemetry(settings.telemetry.clone());
        alone::run("dns", &telemetry, start(settings))
    }
}

async fn start(settings: Settings) -> Result<Process, Failure> {
    let Settings { store, store_password_file, store_key_file, metrics, service, .. } = settings;
    let stored = Stored {
        name: "dns",
        place: location::Place {
            location: &store,
            password_file: store_password_file.as_ref(),
            key_file: store_key_file.as_deref(),
        },
        catalog: catalog(),
        metrics: &metrics,
    };
    let build = async |site: Site<'_>| {
        let Site { store, health, registry, .. } = site;
        Service::build(service, Deps { source: Box::new(CloudNames::new(store)), health, registry })
            .await
            .hint("`service.listen` of the configuration is its port, over UDP and TCP")
    };
    stored.start(build, |service: Service, shutdown| async move { Ok(service.run(shutdown).await?) }).await
}
