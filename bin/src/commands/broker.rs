//! `broker`: the MQTT broker, alone.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use pilothouse_broker::{Config, Deps, Service};
use pilothouse_http::{Health, ListenerConfig};
use pilothouse_runtime::config::{self, ConfigArgs};
use pilothouse_runtime::{Clock, OnExit, Process, telemetry};
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};

use super::{alone, stored};
use crate::{Failure, Hint, Output};

/// How long clients have to take their leave when it is stopped.
const GRACE: Duration = Duration::from_secs(10);

/// Where the keys of a configuration are explained.
const WHERE: &str = "docs/how-to/run-maestro-agents.md has a configuration for `--config FILE`";

/// Run the MQTT broker alone: where Maestro's server and its agents meet, when nobody else's is at hand.
///
/// A region runs one by itself. It is configured by a file; `--dump-config` shows every key. Off the loopback it wants clients with
/// certificates, and rules that say by the names in them who may use which topics. It keeps nothing: whoever comes back asks for
/// what he missed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse broker                                     On the loopback, for everybody on this machine
  pilothouse broker --config broker.toml                With TLS, for those who have certificates
  mosquitto_sub -p 1883 -V mqttv5 -t '#'                What goes by")]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

/// What the process is configured with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// Where health, metrics and debug pages are served.
    metrics: ListenerConfig,
    /// Logs and traces.
    telemetry: telemetry::Config,
    /// The broker itself.
    service: Config,
}

impl Default for Settings {
    fn default() -> Self {
        Self { metrics: stored::metrics(), telemetry: Default::default(), service: Config::default() }
    }
}

impl Args {
    /// Runs until it is stopped.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn run(&self, output: &mut Output) -> Result<ExitCode, Failure> {
        let settings: Settings =
            config::load(&self.config, Default::default()).map_err(|error| anyhow!(error)).hint(WHERE)?;
        if self.config.dump_config {
            output.raw(config::dump(&settings)?.as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        let telemetry = self.config.telemetry(settings.telemetry.clone());
        alone::run("broker", &telemetry, start(settings))
    }
}

async fn start(settings: Settings) -> Result<Process, Failure> {
    let Settings { metrics, service: config, .. } = settings;
    let mut process = Process::install(GRACE)?;
    let shutdown = process.shutdown().clone();
    let clock = Clock::system();
    let health = Health::new(shutdown.clone());
    let pages = alone::bind_pages(&metrics, &clock).await?;
    let mut registry = Registry::default();
    let authorizer = config.authorizer().hint(WHERE)?;
    let deps = Deps { clock, authorizer, registry: &mut registry };
    let service = Service::build(config, deps).await.hint(WHERE)?;
    service.report(&health);
    let tasks = process.tasks("broker");
    tasks.spawn("broker", OnExit::StopProcess, async move { Ok(service.run(shutdown).await?) });
    alone::serve_pages(pages, health, registry, &mut process, &tasks);
    Ok(process)
}
