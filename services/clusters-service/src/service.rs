use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use pilothouse_clusters_service_api::ClusterId;
use pilothouse_http::{Client, Health, Listener, Stack, Verdict};
use pilothouse_maestro_api::{RestClient, SourceClient};
use pilothouse_runtime::reconcile::{Handle, Options};
use pilothouse_runtime::{Clock, Controller, OnExit, Shutdown, Tasks};
use pilothouse_store::{Parts, Revision, Store};
use prometheus_client::registry::Registry;
use secrecy::SecretString;

use crate::cloud::Cloud;
use crate::clusters::Clusters;
use crate::config::Config;
use crate::controller::{ClusterController, Noticed};
use crate::error::Error;
use crate::lanes::Lanes;
use crate::manifests::Settings;
use crate::metrics::Metrics;
use crate::records::Records;
use crate::rest::{self, Rest};
use crate::shards::ShardController;
use crate::wakes::{self, Connected, Follower, Sleepers};

/// Who this service is at Maestro: the source that its [`SourceClient`] has to be made with.
pub const SOURCE_ID: &str = "clusters-service";

/// How long what was accepted may take to finish at shutdown.
const DRAIN: Duration = Duration::from_secs(30);
/// What a cluster pulls with when nothing is configured: no credentials at all.
const NO_CREDENTIALS: &str = r#"{"auths":{}}"#;

/// What the service needs from outside.
#[derive(Debug)]
pub struct Deps<'a> {
    /// Opened with [`crate::catalog`].
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// For calls to the cloud's resource manager.
    pub http: Client,
    /// Reads what Maestro has.
    pub maestro: RestClient,
    /// Publishes to Maestro, as [`SOURCE_ID`].
    pub source: SourceClient,
    /// The readiness page.
    pub health: Health,
    /// Where numbers are registered; the prefix is the service's own.
    pub registry: &'a mut Registry,
}

/// Clusters Service, ready to run.
#[derive(Debug)]
pub struct Service {
    listener: Listener,
    http_metrics: pilothouse_http::Metrics,
    metrics: Metrics,
    clusters: Clusters,
    controller: Controller<ClusterController>,
    shards: Controller<ShardController>,
    source: SourceClient,
    maestro: RestClient,
    connected: Connected,
    began_at: Revision,
    parts: Arc<Parts>,
    lanes: Lanes,
}

/// Asks the controller to look, and shows what it is at. A cheap handle.
#[derive(Clone, Debug)]
pub struct ControllerHandle(Handle<ClusterId>);

impl Service {
    /// Checks the configuration, binds the port and reads what it needs; nothing runs yet.
    pub fn build(config: Config, deps: Deps<'_>) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, deps))
    }

    async fn assemble(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        config.check()?;
        let Deps { store, clock, http, maestro, source, health, registry } = deps;
        let listener = Listener::bind("Clusters Service", &config.listener, &clock).await?;
        let registry = registry.sub_registry_with_prefix("clusters_service");
        let http_metrics = pilothouse_http::Metrics::new(registry);
        let metrics = Metrics::new(registry);
        let pull_secret = pull_secret(&config)?;
        let settings = Settings::of(&config, pull_secret.clone());
        let cloud = Cloud::new(http, config.cloud_address()?, config.base_zone()?, pull_secret);
        let config = Arc::new(config);
        let holder = Parts::holder("clusters-service", config.replica.as_deref());
        let parts = Arc::new(Parts::new(store.clone(), "clusters-service", holder, config.lease.0));
        let records = Records::try_new(store)?;
        records.shards_ensure(&config.shards, clock.now()).await?;
        let began_at = records.revision().await?;
        let clusters = Clusters { records: records.clone(), config: config.clone(), clock: clock.clone() };
        let options =
            Options { resync: config.resync.0, concurrency: config.concurrency, ..Options::default() };
        let lanes = Lanes::default();
        let controller = ClusterController {
            records: records.clone(),
            cloud,
            maestro: maestro.clone(),
            source: source.clone(),
            config: config.clone(),
            settings,
            clock: clock.clone(),
            metrics: metrics.clone(),
            parts: parts.clone(),
            uninspected: Mutex::default(),
            noticed: Noticed::default(),
            lanes: lanes.clone(),
        };
        let resync = Options { resync: config.resync.0, ..Options::default() };
        let shards =
            ShardController { records, maestro: maestro.clone(), source: source.clone(), config, clock };
        let connected = Connected::default();
        health.register("clusters-service maestro", subscription_check(connected.clone()));
        Ok(Self {
            listener,
            http_metrics,
            metrics,
            clusters,
            controller: Controller::new("clusters", controller, options),
            shards: Controller::new("shards", shards, resync),
            source,
            maestro,
            connected,
            began_at,
            parts,
            lanes,
        })
    }

    /// Where it listens, with the real port.
    pub fn local_address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    /// The handle of the controller.
    pub fn handle(&self) -> ControllerHandle {
        ControllerHandle(self.controller.handle())
    }

    /// Serves and reconciles until shutdown; returns when drained.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(self, shutdown: Shutdown) -> Result<(), Error> {
        let Self {
            listener,
            http_metrics,
            metrics,
            clusters,
            controller,
            shards,
            source,
            maestro,
            connected,
            began_at,
            parts,
            lanes,
        } = self;
        let tasks = Tasks::new("clusters-service", shutdown.clone());
        let records = clusters.records.clone();
        // From before the port was open, so that nothing that was asked for is missed.
        let follower = Follower::new(records.clone(), began_at, metrics.clone());
        let handle = controller.spawn(&tasks);
        let shards = shards.spawn(&tasks);
        let sleepers = Sleepers { clusters: handle.clone(), shards: shards.clone() };
        tasks.spawn(
            "follow the store",
            OnExit::StopProcess,
            wakes::follow_store(follower, (handle, lanes), shutdown.clone()),
        );
        tasks.spawn(
            "follow Maestro",
            OnExit::StopProcess,
            wakes::follow_maestro(
                (source, maestro),
                records.clone(),
                sleepers,
                connected,
                metrics,
                shutdown.clone(),
            ),
        );
        let rest = Rest { clusters, shards, shutdown: shutdown.clone() };
        let router = rest::router(rest, Stack::new(http_metrics.clone()));
        let own = tasks.clone();
        tasks.spawn(
            "serve",
            OnExit::StopProcess,
            async move { listener.serve(router, http_metrics, &own).await },
        );
        tasks.spawn("renew leases", OnExit::Expendable, {
            let parts = parts.clone();
            async move {
                parts.renew().await;
                Ok(())
            }
        });
        shutdown.requested().await;
        let drained = tasks.drain(DRAIN).await;
        parts.release_all().await;
        Ok(drained?)
    }
}

impl ControllerHandle {
    /// What the controller is at, for the debug page.
    pub fn status(&self) -> pilothouse_runtime::reconcile::ControllerStatus {
        self.0.status()
    }

    /// Looks at every cluster now.
    pub fn wake_all(&self) {
        self.0.wake_all();
    }
}

fn pull_secret(config: &Config) -> Result<SecretString, Error> {
    match &config.pull_secret {
        Some(file) => Ok(file.read()?),
        None => Ok(NO_CREDENTIALS.into()),
    }
}

fn subscription_check(connected: Connected) -> impl Fn() -> Verdict + Send + Sync + 'static {
    move || {
        if connected.load(Ordering::Relaxed) {
            return Verdict::ready("subscribed to Maestro");
        }
        // Requests are still taken and kept, so it stays ready.
        Verdict::warning("no subscription to Maestro; states of clusters are not being updated")
    }
}
