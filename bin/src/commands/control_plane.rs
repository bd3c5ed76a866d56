//! `control-plane`: the light payload of a hosted cluster.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use pilothouse_region::control_plane::{self, ControlPlane};
use pilothouse_runtime::config::{self, ConfigArgs};
use pilothouse_runtime::{Clock, OnExit, Process, Shutdown, telemetry};

use super::alone;
use crate::{Failure, Hint, Output};

/// How long open requests may take when it is stopped.
const GRACE: Duration = Duration::from_secs(10);

/// Run a control plane: an API server, controllers and a scheduler, in one process.
///
/// This is what the pods of hosted clusters run. It is configured by a file alone.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

impl Args {
    /// Runs until it is stopped.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn run(self, output: &mut Output) -> Result<ExitCode, Failure> {
        let config: control_plane::Config = config::load(&self.config, Default::default())
            .map_err(|error| anyhow!(error))
            .hint("the configuration is named with `--config FILE`")?;
        if self.config.dump_config {
            output.raw(config::dump(&config)?.as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        let telemetry = self.config.telemetry(telemetry::Config::default());
        stay("control-plane", &telemetry, async |shutdown: &Shutdown| {
            ControlPlane::build(config, Clock::system(), shutdown)
                .await
                .map_err(|error| anyhow!(error))
                .hint("every file that the configuration names has to be there")
        })
    }
}

/// Builds a control plane and runs it until the process is told to stop.
pub(super) fn stay(
    name: &'static str,
    telemetry: &telemetry::Config,
    build: impl AsyncFnOnce(&Shutdown) -> Result<ControlPlane, Failure>,
) -> Result<ExitCode, Failure> {
    alone::run(name, telemetry, start(build))
}

async fn start(
    build: impl AsyncFnOnce(&Shutdown) -> Result<ControlPlane, Failure>,
) -> Result<Process, Failure> {
    let mut process = Process::install(GRACE)?;
    let shutdown = process.shutdown().clone();
    let plane = build(&shutdown).await?;
    let tasks = process.tasks("control-plane");
    let store = plane.store();
    tasks.spawn(
        "control-plane",
        OnExit::StopProcess,
        async move { Ok(Box::pin(plane.run(shutdown)).await?) },
    );
    process.on_drained("store", async move {
        store.close().await;
        Ok(())
    });
    Ok(process)
}
