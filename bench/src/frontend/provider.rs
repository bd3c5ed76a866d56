//! Frontend and backend in one process of their own.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use pilothouse_clusters_service_api::Client;
use pilothouse_clusters_service_api::simulated::Simulated;
use pilothouse_http::{ClientBuilder, Health};
use pilothouse_runtime::{Clock, Shutdown, telemetry};
use pilothouse_store::{Location, Options, Store};
use pilothouse_test_support::process::Running;
use prometheus_client::registry::Registry;
use tokio::time::{Instant, sleep};
use url::Url;

use super::body::{LOCATION, path};
use crate::harness::{Folder, Memory, Program};

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);
/// Between two readings of memory; and how far two may differ and be equal, as a share.
const PAUSE: Duration = Duration::from_millis(500);
const EQUAL: f64 = 0.005;

/// What the process of its own is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The store, a path.
    #[arg(long)]
    store: String,
    /// Where Clusters Service is.
    #[arg(long)]
    clusters_service: Url,
    /// The file that says where the frontend listens, once it does.
    #[arg(long)]
    address_file: PathBuf,
}

/// A provider that runs. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Provider {
    process: Running,
    address: SocketAddr,
}

impl Provider {
    /// Starts one on the store of this name.
    pub(super) async fn start(
        program: &Program,
        folder: &Folder,
        name: &str,
        clusters_service: &Simulated,
    ) -> anyhow::Result<Self> {
        let (address_file, log) =
            (folder.path().join(format!("{name}.address")), folder.path().join(format!("{name}.log")));
        let mut command = Command::new(program.path());
        command
            .args(["serve", "--store"])
            .arg(path(folder, name))
            .arg("--clusters-service")
            .arg(format!("http://{}", clusters_service.address()))
            .arg("--address-file")
            .arg(&address_file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        let mut process = Running::spawn(command).context("the provider's process cannot be started")?;
        let start = Instant::now();
        loop {
            if let Some(address) =
                fs::read_to_string(&address_file).ok().and_then(|text| text.trim().parse().ok())
            {
                return Ok(Self { process, address });
            }
            if start.elapsed() > PATIENCE || !matches!(process.child().try_wait(), Ok(None)) {
                bail!(
                    "the provider did not start; it said:\n{}",
                    fs::read_to_string(&log).unwrap_or_default()
                );
            }
            sleep(LOOK).await;
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its memory once two readings are equal, and whether that came to be.
    pub(super) async fn memory_at_rest(&self) -> anyhow::Result<(Memory, bool)> {
        let id = [i32::try_from(self.process.id())?];
        let start = Instant::now();
        let mut last = Memory::of(&id)?;
        loop {
            sleep(PAUSE).await;
            let now = Memory::of(&id)?;
            let settled = (now.total - last.total).abs() <= now.total * EQUAL;
            if settled || start.elapsed() > PATIENCE {
                return Ok((now, settled));
            }
            last = now;
        }
    }

    pub(super) fn stop(self) {
        self.process.kill();
    }
}

/// The process of its own: serves until it is killed.
pub(crate) async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let ServeArgs { store, clusters_service, address_file } = args;
    let _telemetry = telemetry::install("pilothouse-bench", &telemetry::Config::default())?;
    let shutdown = Shutdown::new();
    let options = Options::new(Location::sqlite(store), pilothouse_records::catalog()?, shutdown.clone());
    let store = Store::open(options).await?;
    let client = || anyhow::Ok(Client::try_new(ClientBuilder::new(PATIENCE).build()?, &clusters_service)?);
    let mut registry = Registry::default();

    let deps = pilothouse_backend::Deps {
        store: store.clone(),
        clusters_service: client()?,
        clock: Clock::system(),
        health: Health::new(shutdown.clone()),
        registry: registry.sub_registry_with_prefix("backend"),
    };
    let backend = pilothouse_backend::Service::build(pilothouse_backend::Config::default(), deps).await?;
    let deps = pilothouse_frontend::Deps {
        store,
        clusters_service: client()?,
        clock: Clock::system(),
        health: Health::new(shutdown.clone()),
        registry: registry.sub_registry_with_prefix("frontend"),
    };
    let config = pilothouse_frontend::Config {
        location: LOCATION.to_owned(),
        operator_identities_required: false,
        ..pilothouse_frontend::Config::default()
    };
    let frontend = pilothouse_frontend::Service::build(config, deps).await?;
    // Under another name first: whoever waits for it must not read half of it.
    let unfinished = address_file.with_extension("unfinished");
    fs::write(&unfinished, frontend.local_address().to_string())?;
    fs::rename(unfinished, address_file)?;
    let (front, back) = tokio::join!(frontend.run(shutdown.clone()), backend.run(shutdown));
    front?;
    back?;
    Ok(())
}
