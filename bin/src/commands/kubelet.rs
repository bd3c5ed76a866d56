//! `kubelet`: a node.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use pilothouse_kubelet::{Config, Deps, Entered, Service, enter};
use pilothouse_runtime::config::{self, ConfigArgs};
use pilothouse_runtime::{Clock, OnExit, Process, block_on, telemetry};
use prometheus_client::registry::Registry;

use crate::{Failure, Hint};

/// How long the kubelet's own requests may take when it is stopped. Pods are left running.
const GRACE: Duration = Duration::from_secs(10);

/// Run a node: pods as processes, in namespaces of their own.
///
/// A region runs one by itself, and so does every node of a hosted cluster. It is configured by a file alone. Pods outlive
/// it; the next kubelet on the same folder adopts them.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// End with this process
    #[arg(long, value_name = "PID", hide = true)]
    parent: Option<i32>,
}

impl Args {
    /// Runs until it is stopped.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let config: Config = config::load(&self.config, Default::default())
            .map_err(|error| anyhow!(error))
            .hint("the configuration is named with `--config FILE`")?;
        // Before any thread exists: a process with several cannot change its namespaces.
        let entered = enter(&config)?;
        if let Some(parent) = self.parent {
            // After entering, which makes the kernel forget such a wish.
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            if getppid() != Pid::from_raw(parent) {
                return Err(anyhow!("process {parent}, which wanted this node, has ended"))?;
            }
        }
        let _telemetry = telemetry::install("kubelet", &self.config.telemetry(telemetry::Config::default()))
            .map_err(|error| anyhow!(error))
            .hint("a filter is a level, or a list such as `info,pilothouse_store=debug`")?;
        let mut outcome = Ok(());
        let code = block_on(async {
            match start(config, entered).await {
                Ok(process) => process.run().await,
                Err(failure) => {
                    outcome = Err(failure);
                    pilothouse_runtime::ExitCode::NotStarted
                }
            }
        });
        outcome.map(|()| code.into())
    }
}

async fn start(config: Config, entered: Entered) -> Result<Process, Failure> {
    let mut process = Process::install(GRACE)?;
    let mut registry = Registry::default();
    let deps = Deps { entered, clock: Clock::system(), registry: &mut registry };
    let node = Service::build(config, deps).await?;
    let shutdown = process.shutdown().clone();
    process.tasks("node").spawn("kubelet", OnExit::StopProcess, async move { Ok(node.run(shutdown).await?) });
    Ok(process)
}
