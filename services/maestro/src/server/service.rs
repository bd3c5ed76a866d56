use std::net::SocketAddr;
use std::time::Duration;

use futures::future::BoxFuture;
use pilothouse_http::{Health, Listener, Metrics as HttpMetrics, Stack, Verdict};
use pilothouse_runtime::{Clock, Controller, OnExit, Shutdown, Tasks, reconcile};
use pilothouse_store::Store;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tracing::info;

use crate::link::{BrokerKind, Happening, Link};
use crate::server::accepted::Accepted;
use crate::server::access::Access;
use crate::server::again::Again;
use crate::server::agents::AgentCalls;
use crate::server::bundle::Bundles;
use crate::server::grpc::{Calls, CloudEventService, MESSAGE_LIMIT};
use crate::server::metrics::Metrics;
use crate::server::outbox::Outbox;
use crate::server::pages;
use crate::server::records::Records;
use crate::server::reports::Reports;
use crate::server::rest::{self, Api};
use crate::server::resync::Resync;
use crate::server::share::Share;
use crate::server::sources::Sources;
use crate::server::subscription::Subscriptions;
use crate::server::{Config, Error};
use crate::topic;

/// How long everything has to end.
const DRAIN: Duration = Duration::from_secs(25);
/// Bundles that are being sent at once. Each waits for the broker, and then for the disk.
const CONCURRENCY: usize = 128;

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
    grpc: GrpcListener,
    /// Where agents dial the server.
    grpc_broker: Option<GrpcListener>,
    /// With the pages for whoever expects them as the original has them.
    pages: Option<(Listener, HttpMetrics)>,
    rest_metrics: HttpMetrics,
    metrics: Metrics,
    records: Records,
    clock: Clock,
    health: Health,
    config: Config,
}

/// A port for one of the gRPC interfaces, with who may call it.
#[derive(Debug)]
struct GrpcListener {
    listener: Listener,
    http: HttpMetrics,
    access: Access,
}

impl Service {
    /// Takes the ports and makes the configured consumers. The broker need not be there yet.
    pub fn build(config: Config, deps: Deps<'_>) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, deps))
    }

    async fn assemble(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { store, clock, health, registry } = deps;
        for name in config.consumers.iter().chain([&config.source_id]) {
            if !topic::is_name(name) {
                return Err(Error::Name(name.clone()));
            }
        }
        let rest = Listener::bind("Maestro's REST interface", &config.rest, &clock).await?;
        const SOURCES: &str = "Maestro's gRPC interface";
        const AGENTS: &str = "Maestro's gRPC interface for agents";
        let grpc = GrpcListener {
            access: Access::try_new(&config.sources, &config.grpc, SOURCES).await?,
            listener: Listener::bind(SOURCES, &config.grpc, &clock).await?,
            http: HttpMetrics::new(registry.sub_registry_with_prefix("grpc")),
        };
        let grpc_broker = match config.broker.kind {
            BrokerKind::Mqtt => None,
            BrokerKind::Grpc => Some(GrpcListener {
                access: Access::try_new(&config.agents, &config.grpc_broker, AGENTS).await?,
                listener: Listener::bind(AGENTS, &config.grpc_broker, &clock).await?,
                http: HttpMetrics::new(registry.sub_registry_with_prefix("grpc_broker")),
            }),
        };
        let pages = match &config.health {
            Some(health) => Some((
                Listener::bind("Maestro's health page", health, &clock).await?,
                HttpMetrics::new(registry.sub_registry_with_prefix("health")),
            )),
            None => None,
        };
        let records = Records::try_new(store)?;
        for consumer in &config.consumers {
            records.ensure_consumer(consumer, clock.now()).await?;
        }
        let rest_metrics = HttpMetrics::new(registry.sub_registry_with_prefix("rest"));
        let metrics = Metrics::register(registry);
        Ok(Self { rest, grpc, grpc_broker, pages, rest_metrics, metrics, records, clock, health, config })
    }

    /// Where REST is served.
    pub fn rest_address(&self) -> SocketAddr {
        self.rest.local_address()
    }

    /// Where gRPC is served.
    pub fn grpc_address(&self) -> SocketAddr {
        self.grpc.listener.local_address()
    }

    /// Where agents dial the server, if they do.
    pub fn grpc_broker_address(&self) -> Option<SocketAddr> {
        self.grpc_broker.as_ref().map(|grpc| grpc.listener.local_address())
    }

    /// Where the health page is, if there is one.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.pages.as_ref().map(|(listener, _)| listener.local_address())
    }

    /// Serves until shutdown; returns when everything has ended.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(mut self, shutdown: Shutdown) -> Result<(), Error> {
        let tasks = Tasks::new("maestro-server", shutdown.clone());
        let (link, happenings) = self.link(&tasks)?;
        let Self { rest, grpc, pages, rest_metrics, metrics, records, clock, health, config, .. } = self;
        let heartbeat = Duration::from_secs(config.heartbeat_seconds.max(1));
        // Agents that dial a server are that server's.
        let share = match config.replica.filter(|_| config.broker.kind == BrokerKind::Mqtt) {
            Some(name) => Share::join(name, records.clone(), &tasks),
            None => Share::All,
        };
        register_health(&health, &link, &share);
        if let Some((listener, http)) = pages {
            let app = Stack::new(http.clone()).around(pages::router(health, records.store.clone()));
            let own = tasks.clone();
            tasks.spawn("pages", OnExit::StopProcess, async move { listener.serve(app, http, &own).await });
        }

        let accepted = Accepted::default();
        let outbox = Outbox {
            accepted: accepted.clone(),
            records: records.clone(),
            link: link.clone(),
            share: share.clone(),
            clock: clock.clone(),
            source_id: config.source_id.clone(),
            metrics: metrics.clone(),
        };
        let options = reconcile::Options { concurrency: CONCURRENCY, ..reconcile::Options::default() };
        let controller = Controller::new("outbox", outbox.clone(), options).spawn(&tasks);
        outbox.spawn_feed(&tasks, controller.clone());

        let resync = Resync {
            records: records.clone(),
            link: link.clone(),
            clock: clock.clone(),
            source_id: config.source_id.clone(),
            share: share.clone(),
            metrics: metrics.clone(),
        };
        let reports = Reports {
            records: records.clone(),
            clock: clock.clone(),
            source_id: config.source_id.clone(),
            metrics: metrics.clone(),
            resync,
            again: Again::new(shutdown.clone(), metrics.clone()),
            tasks: tasks.clone(),
            is_broadcast: config.shared_group.is_none() && matches!(share, Share::Of { .. }),
            share,
            outbox: controller,
            in_hand: Default::default(),
        };
        tasks.spawn("reports", OnExit::StopProcess, async move {
            reports.run(happenings).await;
            Ok(())
        });

        let bundles = Bundles {
            records: records.clone(),
            clock,
            link,
            source_id: config.source_id,
            accepted,
            consumers: Default::default(),
        };
        let api = Api { bundles: bundles.clone(), metrics: metrics.clone(), found: Default::default() };
        let app = Stack::new(rest_metrics.clone()).around(rest::router(api));
        let own = tasks.clone();
        tasks.spawn("rest", OnExit::StopProcess, async move { rest.serve(app, rest_metrics, &own).await });

        let subscriptions = Subscriptions {
            records,
            metrics: metrics.clone(),
            shutdown: shutdown.clone(),
            heartbeat,
            standing: Default::default(),
        };
        let access = grpc.access.clone();
        grpc.serve("grpc", Sources { bundles, subscriptions, access }, &metrics, &tasks);

        shutdown.requested().await;
        tasks.drain(DRAIN).await?;
        info!("the Maestro server has stopped");
        Ok(())
    }

    /// The way to the agents: over a broker, or as the one they dial.
    fn link(&mut self, tasks: &Tasks) -> Result<(Link, mpsc::Receiver<Happening>), Error> {
        let Config { broker, source_id, shared_group, .. } = &self.config;
        let Some(grpc) = self.grpc_broker.take() else {
            let all = topic::agent_events(source_id, "+");
            let filter = match shared_group {
                Some(group) => format!("$share/{group}/{all}"),
                None => all,
            };
            return Ok(Link::over_mqtt(broker, filter, &self.clock, tasks)?);
        };
        let (link, agents, happenings) = Link::to_agents();
        let calls = AgentCalls {
            agents,
            access: grpc.access.clone(),
            records: self.records.clone(),
            shutdown: tasks.shutdown().clone(),
            heartbeat: Duration::from_secs(self.config.heartbeat_seconds.max(1)),
            connected: self.metrics.agents.clone(),
        };
        grpc.serve("grpc-broker", calls, &self.metrics, tasks);
        Ok((link, happenings))
    }
}

impl GrpcListener {
    fn serve<C: Calls>(self, name: &'static str, calls: C, metrics: &Metrics, tasks: &Tasks) {
        let Self { listener, http, .. } = self;
        let service = CloudEventService { calls, metrics: metrics.clone() };
        let app = tonic::service::Routes::new(service).into_axum_router();
        let limit = u64::try_from(MESSAGE_LIMIT * 2).unwrap_or(u64::MAX);
        let app = Stack::new(http.clone()).with_body_limit(limit).around(app);
        let own = tasks.clone();
        tasks.spawn(name, OnExit::StopProcess, async move { listener.serve(app, http, &own).await });
    }
}

fn register_health(health: &Health, link: &Link, share: &Share) {
    let up = link.clone();
    health.register("maestro-broker", move || {
        if up.is_up() {
            Verdict::ready("connected to the broker, or the broker itself")
        } else {
            Verdict::warning("no connection to the broker; bundles are kept until there is one")
        }
    });
    if share.members().is_none() {
        return;
    }
    let share = share.clone();
    health.register("maestro-replicas", move || {
        let members = share.members().unwrap_or_default();
        if members.is_empty() {
            Verdict::failed("this replica cannot say that it is there; others do its share")
        } else {
            Verdict::ready(format!("{} replicas share the work", members.len()))
        }
    });
}
