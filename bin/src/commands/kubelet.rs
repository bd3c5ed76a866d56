//! `kubelet`: a node.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use pilothouse_kubelet::relay::{self, Relay};
use pilothouse_kubelet::{Config, Deps, Entered, Service, enter};
use pilothouse_runtime::config::{self, ConfigArgs};
use pilothouse_runtime::{Clock, OnExit, Process, telemetry};
use prometheus_client::registry::Registry;

use super::alone;
use super::images::ImageArgs;
use crate::{Failure, Hint, Output};

/// How long the kubelet's own requests may take when it is stopped. Pods are left running.
const GRACE: Duration = Duration::from_secs(10);

/// Run a node: pods as processes, in namespaces of their own.
///
/// A region runs one by itself, and so does every node of a hosted cluster. What has no flag is set in a file. Pods outlive
/// it; the next kubelet on the same folder adopts them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse kubelet --config kubelet.toml
  pilothouse kubelet --root one --node-name one --pod-range 10.9.0.0/16 --bootstrap-kubeconfig join
  pilothouse kubelet --root one --remove")]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// The name of the node
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// The folder for pods, their logs and the node's own records
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// The addresses of its pods, such as `10.200.0.0/16`
    #[arg(long, value_name = "RANGE")]
    pod_range: Option<String>,
    /// How the API server is reached, and who the node is to it; a node that joins by a token writes it
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A kubeconfig with the token that lets the node join; it asks for certificates of its own then, and renews them
    #[arg(long, value_name = "FILE")]
    bootstrap_kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    images: ImageArgs,
    /// Do not run a node, but end the pods of the one in `--root` and take away what it needed; its Node, certificates and volumes stay
    #[arg(long)]
    remove: bool,
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
    pub fn run(self, output: &mut Output) -> Result<ExitCode, Failure> {
        let mut config: Config = config::load(&self.config, Default::default())
            .map_err(|error| anyhow!(error))
            .hint("the configuration is named with `--config FILE`")?;
        self.override_in(&mut config)?;
        if self.config.dump_config {
            output.raw(config::dump(&config)?.as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.remove {
            return remove(&config);
        }
        // Before entering, since it stays outside.
        let relay = relay::start(&mut config)?;
        // Before any thread exists: a process with several cannot change its namespaces.
        let entered = enter(&config)?;
        if let Some(parent) = self.parent {
            // After entering, which makes the kernel forget such a wish.
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            if getppid() != Pid::from_raw(parent) {
                return Err(anyhow!("process {parent}, which wanted this node, has ended"))?;
            }
        }
        let telemetry = self.config.telemetry(telemetry::Config::default());
        alone::run("kubelet", &telemetry, start(config, entered, relay))
    }

    /// What the flags say, in place of what the file says.
    fn override_in(&self, config: &mut Config) -> Result<(), Failure> {
        let absolute = |path: &PathBuf| std::path::absolute(path).map_err(|error| anyhow!(error));
        if let Some(name) = &self.node_name {
            config.node_name.clone_from(name);
        }
        if let Some(root) = &self.root {
            config.root = absolute(root)?;
        }
        if let Some(range) = &self.pod_range {
            config.pod_range = Some(range.clone());
        }
        // Entering the node's mounts also changes the working folder.
        if let Some(path) = &self.kubeconfig {
            config.kubeconfig = absolute(path)?;
        }
        if let Some(path) = &self.bootstrap_kubeconfig {
            config.bootstrap_kubeconfig = Some(absolute(path)?);
        }
        config.images.extend(self.images.listed());
        config.upstream = config.upstream.take().or_else(|| self.images.upstream());
        if config.root.as_os_str().is_empty() {
            return Err(anyhow!("the node has no folder")).hint("name one with `--root DIR`");
        }
        Ok(())
    }
}

/// Takes a node away that nobody needs any more.
fn remove(config: &Config) -> Result<ExitCode, Failure> {
    let ended = pilothouse_kubelet::remove(&config.root).hint("stop its kubelet, and call this again")?;
    let pods = if ended == 1 { "pod" } else { "pods" };
    writeln!(io::stdout(), "removed the node in {}, with {ended} running {pods}", config.root.display())?;
    let node = if config.node_name.is_empty() { "NAME" } else { &config.node_name };
    writeln!(io::stdout(), "its cluster forgets it with `kubectl delete node {node}`")?;
    Ok(ExitCode::SUCCESS)
}

async fn start(config: Config, entered: Entered, relay: Option<Relay>) -> Result<Process, Failure> {
    let mut process = Process::install(GRACE)?;
    if let Some(relay) = relay {
        process.tasks("node").spawn("relay", OnExit::StopProcess, async move { Err(relay.ended().await) });
    }
    let mut registry = Registry::default();
    let deps = Deps { entered, clock: Clock::system(), registry: &mut registry };
    let node = Service::build(config, deps).await?;
    let shutdown = process.shutdown().clone();
    process
        .tasks("node")
        .spawn("kubelet", OnExit::StopProcess, async move { Ok(Box::pin(node.run(shutdown)).await?) });
    Ok(process)
}
