use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_http::{Health, Verdict};
use pilothouse_records::{HoldFeed, OperationFeed, Records};
use pilothouse_runtime::reconcile::Options;
use pilothouse_runtime::{Clock, Controller, OnExit, Shutdown, Tasks};
use pilothouse_store::{Parts, Store};
use prometheus_client::registry::Registry;

use crate::active::Active;
use crate::config::Config;
use crate::controller::Operations;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::notifications::{self, Notifications};
use crate::sweep::Sweep;
use crate::wake::{Watch, follow_holds, follow_operations};

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
    holds: HoldFeed,
    records: Records,
    clusters_service: clusters_service::Client,
    operations: Controller<Operations>,
    notifications: Controller<Notifications>,
    sweep: Sweep,
    leases: Arc<Parts>,
    active: Arc<Active>,
    connected: Arc<AtomicBool>,
    metrics: Metrics,
}

impl Service {
    /// Begins to follow the operations.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or the authorities that notifications are to trust.
    pub fn build(config: Config, deps: Deps<'_>) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, deps))
    }

    async fn assemble(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { store, clusters_service, clock, health, registry } = deps;
        let metrics = Metrics::register(registry);
        let records = Records::new(store.clone());
        // Before the first listing, so that nothing falls between the two.
        let feed = records.operation_feed().await?;
        let holds = records.hold_feed().await?;
        let holder = Parts::holder("backend", config.replica.as_deref());
        let leases = Arc::new(parts(&store, holder.clone(), config.lease.0, &metrics));
        let resync = config.resync.0;
        let notifications = Notifications {
            records: records.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            client: notifications::client(&config.notifications)?,
            config: config.notifications.clone(),
        };
        let options = Options { resync, concurrency: config.notifications.concurrency, ..Options::default() };
        let notifications = Controller::new("notifications", notifications, options);
        let sweeper = format!("{holder}-sweep");
        let sweep = Sweep {
            records: records.clone(),
            leases: parts(&store, sweeper, config.lease.0, &metrics),
            store,
            holder,
            clusters_service: clusters_service.clone(),
            metrics: metrics.clone(),
            every: config.sweep.0,
            call_limit: config.call_limit.0,
            clock: clock.clone(),
            create_limit: config.deadlines.cluster_create.0,
            position: Mutex::new(None),
        };
        let options = Options { resync, concurrency: config.concurrency, ..Options::default() };
        let operations = Operations {
            records: records.clone(),
            clusters_service: clusters_service.clone(),
            clock,
            leases: leases.clone(),
            metrics: metrics.clone(),
            config,
        };
        let operations = Controller::new("operations", operations, options);
        let connected = Arc::new(AtomicBool::new(false));
        health.register("clusters-service-watch", {
            let connected = connected.clone();
            move || match connected.load(Ordering::Relaxed) {
                true => Verdict::ready("changes of Clusters Service are being followed"),
                false => Verdict::warning("Clusters Service cannot be followed; operations wait for it"),
            }
        });
        let active = Arc::new(Active::new(metrics.clone()));
        Ok(Self {
            feed,
            holds,
            records,
            clusters_service,
            operations,
            notifications,
            sweep,
            leases,
            active,
            connected,
            metrics,
        })
    }

    /// Works until shutdown; returns when running passes have ended and the leases are given back.
    ///
    /// # Errors
    ///
    /// When passes do not end in time.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(self, shutdown: Shutdown) -> Result<(), Error> {
        let tasks = Tasks::new("backend", shutdown.clone());
        let operations = self.operations.spawn(&tasks);
        let notifications = self.notifications.spawn(&tasks);
        let watch = Watch {
            client: self.clusters_service,
            records: self.records,
            handle: operations.clone(),
            active: self.active.clone(),
            connected: self.connected,
            metrics: self.metrics,
        };
        // These only wake, or begin anew the next time: stopping them anywhere loses nothing.
        let following = follow_operations(self.feed, self.active, operations.clone(), notifications);
        tasks.spawn("follow operations", OnExit::Expendable, following);
        tasks.spawn("follow holds", OnExit::Expendable, follow_holds(self.holds, operations));
        tasks.spawn("follow Clusters Service", OnExit::Expendable, watch.run());
        tasks.spawn("find orphans", OnExit::Expendable, self.sweep.run());
        let leases = self.leases;
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

/// None of the parts of the work yet.
fn parts(store: &Store, holder: String, lease: Duration, metrics: &Metrics) -> Parts {
    let held = metrics.leases.clone();
    Parts::new(store.clone(), "backend", holder, lease).counted_by(move |taken| {
        if taken {
            held.inc()
        } else {
            held.dec()
        };
    })
}
