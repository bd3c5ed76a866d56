//! `up`: a whole region on this machine.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use comfy_table::Table;
use pilothouse_region::{
    Authentication, Config, DataDir, Endpoints, FirstClusterError, GatewayFile, Payload, PortChoice, Ports,
    Region,
};
use pilothouse_runtime::telemetry::{self, Journal};
use pilothouse_runtime::{Process, Reason, Tasks};
use pilothouse_upstream::Version;
use serde::Serialize;

use super::alone;
use super::images::ImageArgs;
use super::region_data::RegionArgs;
use super::say;
use crate::output;
use crate::{Failure, Hint, Output, Render};

mod detach;

/// How long a region may take to stop: its hosted control planes are stopped in order.
const GRACE: Duration = Duration::from_secs(60);

/// Start a whole region on this machine, and stay until it is stopped.
///
/// Everything runs from this one binary, over embedded engines: the API that clusters are asked of, the services behind
/// it, a management cluster and the node that runs its pods as processes. What was there before is resumed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also create a first cluster of this name, with a node pool, and wait for it
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Which programs the control planes of clusters consist of that choose none themselves
    #[arg(long, value_enum, default_value_t = PayloadArg::Light, value_name = "PAYLOAD")]
    payload: PayloadArg,
    #[command(flatten)]
    region: RegionArgs,
    /// Return when the region is ready, and leave it running
    #[arg(long)]
    detach: bool,
    /// Write the endpoints as JSON to this file once all of them accept
    #[arg(long, value_name = "FILE")]
    endpoints_file: Option<PathBuf>,
    /// Configure the gateway by `[service]` of this file, as one that runs alone; changes are taken while it runs
    #[arg(long, value_name = "FILE")]
    gateway_config: Option<PathBuf>,
    /// Listen on ports that the system chooses once; they are kept in the data directory
    #[arg(long)]
    ephemeral_ports: bool,
    /// Whether callers of the resource provider are asked who they are
    #[arg(long, value_enum, default_value_t = Callers::None, value_name = "MODE")]
    authentication: Callers,
    /// Which events to log: a level, or a list such as `info,pilothouse_store=debug`
    #[arg(long, value_name = "FILTER", env = telemetry::LOG_VARIABLE, hide_env_values = true)]
    log: Option<String>,
    #[command(flatten)]
    images: ImageArgs,
    #[command(flatten)]
    ports: PortArgs,
    /// In the background already: where output goes once the region is ready.
    #[arg(long, hide = true, value_name = "FILE")]
    detached: Option<PathBuf>,
}

/// Which programs a control plane consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PayloadArg {
    /// One process of this program
    Light,
    /// The programs of Kubernetes itself, from the folder of `--upstream`; `pilothouse upstream install` puts them there
    Upstream,
}

/// Whether callers are asked who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Callers {
    /// Whoever is on this machine is let in
    None,
    /// They show a token of the region's own issuer; `pilothouse token` makes one
    Jwt,
}

/// One flag for each port.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Ports")]
struct PortArgs {
    /// The resource provider's API
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().frontend)]
    frontend_port: u16,
    /// The administrators' surface of the resource provider
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().admin)]
    admin_port: u16,
    /// Clusters Service
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().clusters_service)]
    clusters_service_port: u16,
    /// Maestro's REST API
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().maestro)]
    maestro_port: u16,
    /// Maestro's gRPC API
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().maestro_grpc)]
    maestro_grpc_port: u16,
    /// The MQTT broker
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().mqtt)]
    mqtt_port: u16,
    /// The management cluster's API server
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().management)]
    management_port: u16,
    /// Hosted API servers
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().gateway)]
    gateway_port: u16,
    /// `hcp` to download
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().downloads)]
    downloads_port: u16,
    /// The local cloud
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().cloud)]
    cloud_port: u16,
    /// Names of clusters, over UDP and TCP
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().dns)]
    dns_port: u16,
    /// Health, metrics and debug pages
    #[arg(long, value_name = "PORT", default_value_t = Ports::default().metrics)]
    metrics_port: u16,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Started<'a>(&'a Endpoints);

impl Args {
    /// Starts the region and stays until it is stopped.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn run(self, output: &mut Output) -> Result<ExitCode, Failure> {
        if self.detach {
            return detach::run(&self.region.data_dir()?);
        }
        if self.detached.is_some() {
            detach::leave_session();
        }
        let journal = Journal::new(self.log.as_deref());
        let telemetry = telemetry::Config {
            journal: Some(journal.clone()),
            filter: Some(self.log.clone().unwrap_or_else(|| "warn,kube_client=off".to_owned())),
            ..telemetry::Config::default()
        };
        alone::live("region", &telemetry, self.stay(journal, output))
    }

    async fn stay(
        self,
        journal: Journal,
        output: &mut Output,
    ) -> Result<pilothouse_runtime::ExitCode, Failure> {
        let data_dir = self.region.data_dir()?;
        let mut process = Process::install(GRACE)?;
        let tasks = process.tasks("region");
        let shutdown = process.shutdown().clone();
        let started = tokio::select! {
            biased;
            started = self.start(&data_dir, tasks, journal, output) => started,
            // What was begun is stopped like any region; nobody waits for the rest of it.
            () = shutdown.requested() => Ok(()),
        };
        // Whatever fails then fails because of that.
        let stopped = shutdown.reason().is_some_and(|reason| !reason.is_failure());
        if started.is_err() && !stopped {
            // Not started: what was begun is taken back, so that the next attempt finds nothing in its way.
            shutdown.request(Reason::Asked("the region did not start".to_owned()));
        }
        let code = process.run().await;
        if stopped { Ok(code) } else { started.map(|()| code) }
    }

    /// A first cluster whose programs are missing is refused before there is a region.
    fn check_programs(&self) -> Result<(), Failure> {
        let (Some(folder), PayloadArg::Upstream, Some(_)) =
            (self.images.upstream(), self.payload, &self.cluster)
        else {
            return Ok(());
        };
        let version = Version::find(None)?;
        let missing = version.missing_in(&folder);
        // What is for people is no part of a control plane.
        let missing: Vec<_> = missing.into_iter().filter(|name| *name != "kubectl").collect();
        if missing.is_empty() {
            return Ok(());
        }
        let (version, folder) = (version.number(), folder.display());
        Err(anyhow!("{folder} lacks {} of Kubernetes {version}", missing.join(", "))).hint(format!(
            "`pilothouse upstream install --version {version} --cache {folder}` puts them there"
        ))
    }

    fn gateway_file(&self) -> Result<Option<GatewayFile>, Failure> {
        let read = self.gateway_config.as_deref().map(GatewayFile::read).transpose();
        read.map_err(|error| anyhow!(error)).hint(
            "`--gateway-config` names a file with the keys that `pilothouse gateway --dump-config` shows below `[service]`",
        )
    }

    async fn start(
        &self,
        data_dir: &DataDir,
        tasks: Tasks,
        journal: Journal,
        output: &mut Output,
    ) -> Result<(), Failure> {
        self.check_programs()?;
        let config = Config {
            program: std::env::current_exe().context("the path of this program is not known")?,
            ports: if self.ephemeral_ports {
                PortChoice::Ephemeral
            } else {
                PortChoice::Fixed(self.ports.into())
            },
            authentication: self.authentication.into(),
            images: self.images.listed(),
            upstream: self.images.upstream(),
            payload: self.payload.into(),
            gateway: self.gateway_file()?,
            endpoints_file: self.endpoints_file.clone(),
            journal,
            ..Config::new(data_dir.clone())
        };
        let region = Region::start(config, tasks, &say).await.map_err(|error| anyhow!(error)).hint(
            "`--ephemeral-ports` avoids ports that are taken; `pilothouse down` stops another region",
        )?;
        let shown = output.show(&Started(region.endpoints()));
        if self.detached.is_some() {
            detach::unless_nobody_waits(shown)?;
        } else {
            shown?;
        }
        if let Some(name) = &self.cluster {
            let cluster = region
                .first_cluster(name)
                .with_authentication(self.authentication.into())
                .with_payload(self.payload.into());
            let kubeconfig = cluster.ensure(&say).await.or_else(|error| {
                let hint = what_to_do(&error);
                Err(anyhow!(error)).hint(hint)
            })?;
            region.note_kubeconfig();
            say(&format!("cluster `{name}` is ready"));
            self.invite(output, &format!("kubectl --kubeconfig {} get nodes", kubeconfig.display()))?;
        } else {
            let kubeconfig = region.endpoints().management_kubeconfig.display();
            self.invite(output, &format!("kubectl --kubeconfig {kubeconfig} get hostedclusters -A"))?;
        }
        match &self.detached {
            Some(log) => detach::leave_terminal(log)?,
            None => say("running; Ctrl-C or `pilothouse down` stops it"),
        }
        Ok(())
    }

    /// Says what to try next. Scripts asked for data and get nothing else.
    fn invite(&self, output: &Output, command: &str) -> Result<(), Failure> {
        if output.is_for_people() {
            say(&format!("try: {command}"));
            if !pilothouse_region::is_in_path("kubectl") {
                say(
                    "kubectl is not installed: your system's package `kubernetes-client` or `kubectl` has it",
                );
            }
        }
        Ok(())
    }
}

/// What whoever started the region can do about a first cluster that is not there.
fn what_to_do(error: &FirstClusterError) -> String {
    match error {
        FirstClusterError::Failed { url, .. } => format!(
            "it stays so until it is deleted: start the region without `--cluster`, and `curl -X DELETE '{url}'`; \
             `pilothouse operations list --resource {}` has what was tried",
            url.path()
        ),
        FirstClusterError::Name(_) => {
            "start it without `--cluster`, or name another one: letters, digits and hyphens".to_owned()
        }
        _ => "the region goes on where this ended when it is started again".to_owned(),
    }
}

impl From<PayloadArg> for Payload {
    fn from(payload: PayloadArg) -> Self {
        match payload {
            PayloadArg::Light => Self::Light,
            PayloadArg::Upstream => Self::Upstream,
        }
    }
}

impl From<Callers> for Authentication {
    fn from(callers: Callers) -> Self {
        match callers {
            Callers::None => Self::None,
            Callers::Jwt => Self::LocalTokens,
        }
    }
}

impl From<PortArgs> for Ports {
    fn from(args: PortArgs) -> Self {
        Self {
            frontend: args.frontend_port,
            admin: args.admin_port,
            clusters_service: args.clusters_service_port,
            maestro: args.maestro_port,
            maestro_grpc: args.maestro_grpc_port,
            mqtt: args.mqtt_port,
            management: args.management_port,
            gateway: args.gateway_port,
            downloads: args.downloads_port,
            cloud: args.cloud_port,
            dns: args.dns_port,
            metrics: args.metrics_port,
        }
    }
}

impl Render for Started<'_> {
    fn table(&self) -> Table {
        let rows = self.0.rows();
        output::table(["ENDPOINT", "WHERE"], rows.iter().map(|(name, place)| [*name, place.as_str()]))
    }
}
