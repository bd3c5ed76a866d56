//! What the operators of a management cluster have in common when they run alone: the way to that cluster, its custom
//! resources, and the operators' pages.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use pilothouse_http::{Health, ListenerConfig, Verdict};
use pilothouse_region::Management;
use pilothouse_runtime::config::{self, ConfigArgs};
use pilothouse_runtime::{Chain, Clock, OnExit, Process, Shutdown, TaskError, Tasks, telemetry};
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::alone;
use crate::{Failure, Hint, Output};

/// How long running passes may take when it is stopped.
const GRACE: Duration = Duration::from_secs(40);

/// Which cluster, and how it is configured.
#[derive(Debug, clap::Args)]
pub(crate) struct OperatorArgs {
    /// The management cluster's kubeconfig [default: that of the environment]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

/// What an operator's process is configured with, beside the operator itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, bound(deserialize = "C: DeserializeOwned + Default"))]
struct Surroundings<C> {
    /// The management cluster's kubeconfig; without one, that of the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    kubeconfig: Option<PathBuf>,
    /// Whether custom resources that are not there are made.
    install_definitions: bool,
    /// Where health, metrics and debug pages are served.
    metrics: ListenerConfig,
    /// Logs and traces.
    telemetry: telemetry::Config,
    /// The operator itself.
    service: C,
}

/// What an operator is built from.
pub(crate) struct Site<'a> {
    pub(crate) management: Management,
    pub(crate) clock: Clock,
    pub(crate) health: Health,
    pub(crate) registry: &'a mut Registry,
    pub(crate) tasks: Tasks,
}

impl<C: Default> Default for Surroundings<C> {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            install_definitions: true,
            metrics: ListenerConfig::loopback(8081),
            telemetry: telemetry::Config::default(),
            service: C::default(),
        }
    }
}

/// Runs an operator until it is stopped, or prints its configuration.
pub(crate) fn run<C, S, R, F>(
    name: &'static str,
    args: &OperatorArgs,
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
    let mut config: Surroundings<C> = config::load(&args.config, Default::default())
        .map_err(|error| anyhow!(error))
        .hint("the configuration is named with `--config FILE`; `--dump-config` shows every key")?;
    if let Some(kubeconfig) = &args.kubeconfig {
        config.kubeconfig = Some(kubeconfig.clone());
    }
    if args.config.dump_config {
        output.raw(config::dump(&config)?.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let telemetry = args.config.telemetry(config.telemetry.clone());
    alone::run(name, &telemetry, start(name, config, build, serve))
}

/// What the file and the environment say now about an operator that runs: for those that take changes.
pub(crate) fn again<C>(args: &ConfigArgs) -> Result<C, String>
where
    C: DeserializeOwned + Default,
{
    let read: Result<Surroundings<C>, _> = config::load(args, Default::default());
    read.map(|surroundings| surroundings.service).map_err(|error| Chain(&error).to_string())
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
    const CLUSTER: &str =
        "`--kubeconfig FILE` names the management cluster; does `kubectl` reach it with that?";
    let mut process = Process::install(GRACE)?;
    let shutdown = process.shutdown().clone();
    let clock = Clock::system();
    let health = Health::new(shutdown.clone());
    let tasks = process.tasks(name);
    let pages = alone::bind_pages(&config.metrics, &clock).await?;
    let management = Management::connect(config.kubeconfig.as_deref())
        .await
        .map_err(|error| anyhow!(error))
        .hint(CLUSTER)?;
    if config.install_definitions {
        let made = management.ensure_definitions().await;
        made.map_err(|error| anyhow!(error)).hint(CLUSTER)?;
    }
    report(&health, &management, Verdict::failed);
    let mut registry = Registry::default();
    let site = Site {
        management,
        clock,
        health: health.clone(),
        registry: registry.sub_registry_with_prefix(name.replace('-', "_")),
        tasks: tasks.clone(),
    };
    let built = build(config.service, site).await?;
    tasks.spawn(name, OnExit::StopProcess, serve(built, shutdown));
    alone::serve_pages(pages, health, registry, &mut process, &tasks);
    Ok(process)
}

/// Has the health page say whether the management cluster answers, and how bad it is if it does not.
pub(crate) fn report(health: &Health, management: &Management, without: fn(String) -> Verdict) {
    management.report(health, "management", without);
}
