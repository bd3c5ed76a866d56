use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pilothouse_clusters_service_api as clusters_service;
use pilothouse_http::{Health, Verdict};
use pilothouse_records::{OperationFeed, Records};
use pilothouse_runtime::reconcile::Options;
use pilothouse_runtime::{Clock, Controller, OnExit, Shutdown, Tasks};
use pilothouse_store::Store;
use prometheus_client::registry::Registry;
use uuid::Uuid;

use crate::config::Config;
use crate::controller::Operations;
use crate::error::Error;
use crate::leases::Leases;
use crate::metrics::Metrics;
use crate::wake::{Watch, follow_operations};

/// How long passes have to end.
const DRAIN: Duration = Duration::from_secs(25);

/// What the backend needs from outside.
#[derive(Debug)]
pub struct Deps<'a> {
    /// Opened with [`pilothouse_records::catalog`].
    pub store: Store,
    /// Who makes and deletes clusters.
    pub clusters_service: clusters_service::Client,
    /// Dates what happens.
    pub clock: Clock,
    /// Told whether Clusters Service is being followed.
    pub health: Health,
    /// Where the numbers go; a sub-registry with the service's prefix.
    pub registry: &'a mut Registry,
}

/// The backend, ready to work.
#[derive(Debug)]
pub struct Service {
    feed: OperationFeed,
    records: Records,
    clusters_service: clusters_service::Client,
    controller: Controller<Operations>,
    leases: Arc<Leases>,
    connected: Arc<AtomicBool>,
    metrics: Metrics,
}

impl Service {
    /// Begins to follow the operations.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn build(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { store, clusters_service, clock, health, registry } = deps;
        let metrics = Metrics::register(registry);
        let records = Records::new(store.clone());
        // Before the first listing, so that nothing falls between the two.
        let feed = records.operation_feed().await?;
        let holder = format!("backend-{}", Uuid::new_v4());
        let leases = Arc::new(Leases::new(store, holder, config.lease.0, metrics.clone()));
        let options =
            Options { resync: config.resync.0, concurrency: config.concurrency, ..Options::default() };
        let operations = Operations {
            records: records.clone(),
            clusters_service: clusters_service.clone(),
            clock,
            leases: leases.clone(),
            metrics: metrics.clone(),
            config,
        };
        let connected = Arc::new(AtomicBool::new(false));
        health.register("clusters-service-watch", {
            let connected = connected.clone();
            move || match connected.load(Ordering::Relaxed) {
                true => Verdict::ready("changes of Clusters Service are being followed"),
                false => Verdict::warning("Clusters Service cannot be followed; operations wait for it"),
            }
        });
        let controller = Controller::new("operations", operations, options);
        Ok(Self { feed, records, clusters_service, controller, leases, connected, metrics })
    }

    /// Works until shutdown; returns when running passes have ended and the leases are given back.
    ///
    /// # Errors
    ///
    /// When passes do not end in time.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        let Self { feed, records, clusters_service, controller, leases, connected, metrics } = self;
        let tasks = Tasks::new("backend", shutdown.clone());
        let handle = controller.spawn(&tasks);
        let watch = Watch { client: clusters_service, records, handle: handle.clone(), connected, metrics };
        // Both only wake: stopping them anywhere loses nothing.
        tasks.spawn("follow operations", OnExit::Expendable, follow_operations(feed, handle));
        tasks.spawn("follow Clusters Service", OnExit::Expendable, watch.run());
        tasks.spawn("renew leases", OnExit::Expendable, {
            let leases = leases.clone();
            async move {
                leases.renew().await;
                Ok(())
            }
        });
        shutdown.requested().await;
        let drained = tasks.drain(DRAIN).await;
        leases.release_all().await;
        Ok(drained?)
    }
}
