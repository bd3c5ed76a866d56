use std::net::SocketAddr;
use std::time::Duration;

use pilothouse_http::{Health, Listener, Metrics as HttpMetrics, Stack, Verdict};
use pilothouse_runtime::{Clock, Controller, OnExit, Shutdown, Tasks, reconcile};
use pilothouse_store::{Error as StoreError, Store};
use prometheus_client::registry::Registry;
use tracing::info;

use crate::link::{BrokerConfig, Link};
use crate::server::bundle::Bundles;
use crate::server::grpc::{CloudEventService, MESSAGE_LIMIT};
use crate::server::metrics::Metrics;
use crate::server::outbox::Outbox;
use crate::server::records::Records;
use crate::server::reports::Reports;
use crate::server::rest::{self, Api};
use crate::server::resync::Resync;
use crate::server::subscription::Subscriptions;
use crate::server::{Config, Error};
use crate::topic;

/// How long everything has to end.
const DRAIN: Duration = Duration::from_secs(25);
/// Bundles that are being sent at once.
const CONCURRENCY: usize = 32;

/// What the server needs from outside.
#[derive(Debug)]
pub struct Deps<'a> {
    /// Opened with [`catalog`](super::catalog).
    pub store: Store,
    /// Dates everything.
    pub clock: Clock,
    /// Says whether the broker is there.
    pub health: Health,
    /// Where the numbers go.
    pub registry: &'a mut Registry,
}

/// A server with its ports.
#[derive(Debug)]
pub struct Service {
    rest: Listener,
    grpc: Listener,
    rest_metrics: HttpMetrics,
    grpc_metrics: HttpMetrics,
    metrics: Metrics,
    records: Records,
    clock: Clock,
    health: Health,
    broker: BrokerConfig,
    source_id: String,
    filter: String,
    heartbeat: Duration,
}

impl Service {
    /// Takes the ports and makes the configured consumers. The broker need not be there yet.
    pub async fn build(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { store, clock, health, registry } = deps;
        for name in config.consumers.iter().chain([&config.source_id]) {
            if !topic::is_name(name) {
                return Err(Error::Name(name.clone()));
            }
        }
        let rest = Listener::bind("Maestro's REST interface", &config.rest, &clock).await?;
        let grpc = Listener::bind("Maestro's gRPC interface", &config.grpc, &clock).await?;
        let records = Records::try_new(store)?;
        for consumer in &config.consumers {
            records.ensure_consumer(consumer, clock.now()).await?;
        }
        let rest_metrics = HttpMetrics::new(registry.sub_registry_with_prefix("rest"));
        let grpc_metrics = HttpMetrics::new(registry.sub_registry_with_prefix("grpc"));
        let metrics = Metrics::register(registry);
        let all = topic::agent_events(&config.source_id, "+");
        let filter = match &config.shared_group {
            Some(group) => format!("$share/{group}/{all}"),
            None => all,
        };
        Ok(Self {
            rest,
            grpc,
            rest_metrics,
            grpc_metrics,
            metrics,
            records,
            clock,
            health,
            broker: config.broker,
            source_id: config.source_id,
            filter,
            heartbeat: Duration::from_secs(config.heartbeat_seconds.max(1)),
        })
    }

    /// Where REST is served.
    pub fn rest_address(&self) -> SocketAddr {
        self.rest.local_address()
    }

    /// Where gRPC is served.
    pub fn grpc_address(&self) -> SocketAddr {
        self.grpc.local_address()
    }

    /// Serves until shutdown; returns when everything has ended.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        let tasks = Tasks::new("maestro-server", shutdown.clone());
        let Self { rest, grpc, rest_metrics, grpc_metrics, metrics, records, clock, health, .. } = self;
        let (link, happenings) = Link::spawn(&self.broker, vec![self.filter], &clock, &tasks)?;
        let up = link.clone();
        health.register("maestro-broker", move || {
            if up.is_up() {
                Verdict::ready("connected to the MQTT broker")
            } else {
                Verdict::warning("no connection to the MQTT broker; bundles are kept until there is one")
            }
        });

        let outbox = Outbox {
            records: records.clone(),
            link: link.clone(),
            clock: clock.clone(),
            source_id: self.source_id.clone(),
            metrics: metrics.clone(),
        };
        let options = reconcile::Options { concurrency: CONCURRENCY, ..reconcile::Options::default() };
        let outbox = Controller::new("outbox", outbox, options).spawn(&tasks);
        spawn_feed(&records, &tasks, outbox.clone());

        let resync = Resync {
            records: records.clone(),
            link,
            clock: clock.clone(),
            source_id: self.source_id.clone(),
        };
        let reports = Reports {
            records: records.clone(),
            clock: clock.clone(),
            source_id: self.source_id,
            metrics: metrics.clone(),
            resync,
            tasks: tasks.clone(),
            outbox,
        };
        tasks.spawn("reports", OnExit::StopProcess, async move {
            reports.run(happenings).await;
            Ok(())
        });

        let bundles = Bundles { records: records.clone(), clock };
        let app = Stack::new(rest_metrics.clone()).around(rest::router(Api { bundles: bundles.clone() }));
        let own = tasks.clone();
        tasks.spawn("rest", OnExit::StopProcess, async move { rest.serve(app, rest_metrics, &own).await });

        let subscriptions = Subscriptions {
            records,
            metrics,
            shutdown: shutdown.clone(),
            heartbeat: self.heartbeat,
            standing: Default::default(),
        };
        let service = CloudEventService { bundles, subscriptions };
        let app = tonic::service::Routes::new(service).into_axum_router();
        let limit = u64::try_from(MESSAGE_LIMIT * 2).unwrap_or(u64::MAX);
        let app = Stack::new(grpc_metrics.clone()).with_body_limit(limit).around(app);
        let own = tasks.clone();
        tasks.spawn("grpc", OnExit::StopProcess, async move { grpc.serve(app, grpc_metrics, &own).await });

        shutdown.requested().await;
        tasks.drain(DRAIN).await?;
        info!("the Maestro server has stopped");
        Ok(())
    }
}

/// Wakes the outbox for every new note, whoever wrote it.
fn spawn_feed(records: &Records, tasks: &Tasks, outbox: reconcile::Handle<String>) {
    let (records, shutdown) = (records.clone(), tasks.shutdown().clone());
    tasks.spawn("outbox-feed", OnExit::StopProcess, async move {
        loop {
            let after = records.store.revision().await?;
            let mut feed = records.store.container_feed(&records.notes, after)?;
            // What was there before is found by the list.
            outbox.wake_all();
            loop {
                let batch = tokio::select! {
                    () = shutdown.requested() => return Ok(()),
                    batch = feed.next() => batch,
                };
                match batch {
                    Ok(batch) => {
                        let new = batch.changes.iter().filter(|change| change.after.is_some());
                        new.for_each(|change| outbox.wake(change.id.as_str().to_owned()));
                    }
                    Err(StoreError::TooOld { .. } | StoreError::NotYet { .. }) => break,
                    Err(StoreError::Unavailable { .. }) => {
                        tokio::select! {
                            () = shutdown.requested() => return Ok(()),
                            () = tokio::time::sleep(Duration::from_secs(1)) => {}
                        }
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
    });
}
