//! The gateway, put together.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Endpoints;
use kube::{Api, Client};
use pilothouse_crds::Route;
use pilothouse_http::{Health, Verdict};
use pilothouse_informer::{Builder, Informer, ObjectKey, watcher};
use pilothouse_runtime::reconcile::{self, ControllerStatus, Options};
use pilothouse_runtime::{
    Clock, Controller, OnExit, Reason, Shutdown, TaskError, Tasks, accept_failed, descriptor_limit,
};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use crate::address::Addresses;
use crate::cluster::{ClusterName, Clusters};
use crate::config::{Config, Reach};
use crate::connection::Connections;
use crate::dial::Dial;
use crate::doors::{Bound, Door, Doors};
use crate::error::Error;
use crate::metrics::{Metrics, Outcome, Reload};
use crate::resolve::{Resolver, Source};
use crate::route::{Hosts, RouteKey, Routes};
use crate::stream::Stream;
use crate::waiting::WaitingRoom;

/// What the gateway needs from outside.
pub struct Deps<'a> {
    /// The management clusters, for routes and endpoints.
    pub management: Vec<Management>,
    /// The time.
    pub clock: Clock,
    /// Where to say whether it works.
    pub health: Health,
    /// Where to count.
    pub registry: &'a mut Registry,
}

/// A management cluster.
pub struct Management {
    /// What it is called.
    pub name: String,
    /// Its API.
    pub client: Client,
    /// How its endpoints are reached.
    pub dialer: Arc<dyn Dial>,
}

/// The gateway.
pub struct Service {
    config: Arc<ArcSwap<Config>>,
    /// For everybody.
    public: Bound,
    /// Further ones, as they are opened.
    further: mpsc::UnboundedReceiver<Bound>,
    watches: Vec<Watch>,
    resolver: Resolver,
    clusters: Arc<Clusters>,
    metrics: Metrics,
    handle: Handle,
}

/// What is done about one management cluster.
struct Watch {
    management: Arc<str>,
    routes: Builder<Route>,
    endpoints: Builder<Endpoints>,
    controller: Controller<Routes>,
}

/// Shows what the gateway serves, and changes how. A cheap handle.
#[derive(Clone)]
pub struct Handle {
    doors: Doors,
    hosts: Arc<Hosts>,
    sources: Arc<HashMap<Arc<str>, Source>>,
    statuses: Arc<HashMap<Arc<str>, reconcile::Handle<ObjectKey>>>,
    config: Arc<ArcSwap<Config>>,
    clusters: Arc<Clusters>,
    metrics: Metrics,
}

// === impl Service ===

impl Service {
    /// Takes the ports. Nothing is accepted yet.
    ///
    /// # Errors
    ///
    /// When the configuration contradicts itself, or a port is not to be had.
    pub fn build(config: Config, deps: Deps<'_>) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, deps))
    }

    async fn assemble(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { management, clock, health, registry } = deps;
        config.check()?;
        let (wanted, limit) = (config.descriptors(), descriptor_limit());
        if wanted > limit {
            warn!(
                wanted,
                limit,
                "fewer descriptors than `max_connections` needs, two for each; raise the limit (LimitNOFILE, ulimit -n), or set fewer"
            );
        }
        let (doors, public, further) = Doors::bind(config.listen)?;
        doors.prepare(&config)?.make();
        let metrics = Metrics::new(registry);
        let clusters = Arc::new(Clusters::new(metrics.clone()));
        let hosts = Arc::new(Hosts::default());
        let (mut watches, mut sources, mut statuses) = (Vec::new(), HashMap::new(), HashMap::new());
        for Management { name, client, dialer } in management {
            let name: Arc<str> = name.into();
            let watch = Watch::new(name.clone(), client, &hosts, &clock, &config.name);
            let (routes, endpoints) = (watch.routes.informer(), watch.endpoints.informer());
            sources.insert(name.clone(), Source { routes, endpoints, dialer });
            statuses.insert(name, watch.controller.handle());
            watches.push(watch);
        }
        let (sources, statuses) = (Arc::new(sources), Arc::new(statuses));
        let watches =
            watches.into_iter().map(|watch| watch.announce(&hosts, &statuses, &clusters)).collect::<Vec<_>>();
        let config = Arc::new(ArcSwap::from_pointee(config));
        let handle = Handle {
            doors,
            hosts: hosts.clone(),
            sources: sources.clone(),
            statuses,
            config: config.clone(),
            clusters: clusters.clone(),
            metrics: metrics.clone(),
        };
        let ready = handle.clone();
        health.register("gateway", move || ready.verdict());
        let resolver = Resolver { hosts, sources };
        Ok(Self { config, public, further, watches, resolver, clusters, metrics, handle })
    }

    /// Where it listens for everybody: the port that was given if zero was asked for.
    pub fn local_address(&self) -> SocketAddr {
        self.public.address
    }

    /// Where it listens for parts of the region, if it does.
    pub fn internal_address(&self) -> Option<SocketAddr> {
        self.handle.doors.address_of(&Door::In(Reach::Internal))
    }

    /// Shows what the gateway serves, and changes how.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until shutdown and as long as it should linger, and then until every connection has come to an end or the time for
    /// that is over.
    ///
    /// # Errors
    ///
    /// When not everything ends in time.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(self, shutdown: Shutdown) -> Result<(), Error> {
        // Of the gateway, not of the process: for a while it goes on as if nothing was.
        let closing = Shutdown::new();
        let tasks = Tasks::new("gateway", closing.clone());
        for watch in self.watches {
            watch.routes.spawn(&tasks, format!("routes-{}", watch.management));
            watch.endpoints.spawn(&tasks, format!("endpoints-{}", watch.management));
            watch.controller.spawn(&tasks);
        }
        let connections = Arc::new(Connections {
            config: self.config.clone(),
            resolver: self.resolver,
            clusters: self.clusters,
            addresses: Addresses::new(),
            waiting: WaitingRoom::default(),
            metrics: self.metrics,
            shutdown: closing.clone(),
        });
        // In tasks, so that a panic in one is noticed.
        let further = accept_further(self.further, connections.clone(), tasks.clone());
        tasks.spawn("accept-further", OnExit::StopProcess, further);
        tasks.spawn("accept", OnExit::StopProcess, accept(self.public, connections, tasks.clone()));
        let lingered = async {
            shutdown.requested().await;
            let linger = self.config.load().linger.0;
            if !linger.is_zero() {
                info!(?linger, "goes on for as long as balancers need to notice");
                tokio::time::sleep(linger).await;
            }
        };
        tokio::select! {
            () = lingered => closing.request(Reason::Asked("the gateway stops".to_owned())),
            // Something without which it makes no sense has ended.
            () = closing.requested() => {}
        }
        let drained = tasks.drain(self.config.load().drain_timeout.0).await;
        // Read after draining: a failure on the way out counts.
        if let Some(failure) = closing.reason().filter(Reason::is_failure) {
            shutdown.request(failure);
        }
        match drained {
            Ok(()) => Ok(()),
            // Connections that were busy to the last are why there is a limit.
            Err(still) if still.tasks.keys().all(|task| task == "connection") => {
                info!(connections = ?still.tasks, "closed connections that were in use");
                Ok(())
            }
            Err(still) => Err(Error::Drain(still)),
        }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Service").field("address", &self.local_address()).finish_non_exhaustive()
    }
}

// === impl Watch ===

impl Watch {
    fn new(management: Arc<str>, client: Client, hosts: &Arc<Hosts>, clock: &Clock, name: &str) -> Self {
        let routes = Informer::new(Api::<Route>::all(client.clone()), watcher::Config::default());
        let endpoints =
            Informer::new(Api::<Endpoints>::all(client.clone()), watcher::Config::default()).trim(trim);
        let reconciler = Routes {
            management: management.clone(),
            client,
            routes: routes.informer(),
            hosts: hosts.clone(),
            clock: clock.clone(),
            name: name.to_owned(),
        };
        let controller = Controller::new("routes", reconciler, Options::default());
        Self { management, routes, endpoints, controller }
    }

    /// Has every change of a route take effect at once, before anybody is told of it.
    fn announce(
        mut self,
        hosts: &Arc<Hosts>,
        statuses: &Arc<HashMap<Arc<str>, reconcile::Handle<ObjectKey>>>,
        clusters: &Arc<Clusters>,
    ) -> Self {
        let known = self.routes.informer();
        let (management, hosts) = (self.management.clone(), hosts.clone());
        let (statuses, clusters) = (statuses.clone(), clusters.clone());
        self.routes = self.routes.on_change(move |route| {
            let key = RouteKey { management: management.clone(), route: ObjectKey::of(route) };
            let current = known.get(&key.route);
            let effect = hosts.update(&key, current.as_deref());
            if let Some(gone) = effect.gone {
                clusters.forget(&gone);
            }
            for RouteKey { management, route } in effect.affected {
                if let Some(controller) = statuses.get(&management) {
                    controller.wake(route);
                }
            }
        });
        self
    }
}

/// Accepts at every door but the first, for as long as it is open.
async fn accept_further(
    mut opened: mpsc::UnboundedReceiver<Bound>,
    connections: Arc<Connections>,
    tasks: Tasks,
) -> Result<(), TaskError> {
    let mut accepting = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = connections.shutdown.requested() => break,
            Some(bound) = opened.recv() => accepting.push(accept(bound, connections.clone(), tasks.clone())),
            Some(ended) = accepting.next() => ended?,
        }
    }
    while let Some(ended) = accepting.next().await {
        ended?;
    }
    Ok(())
}

/// Accepts until shutdown, or until the door is closed, and then those who wait already: they believe that they are connected.
async fn accept(bound: Bound, connections: Arc<Connections>, tasks: Tasks) -> Result<(), TaskError> {
    let Bound { listener, address, door, mut kept } = bound;
    info!(%address, door = ?door.load(), "gateway listens");
    let start = |stream: Stream, peer: SocketAddr| {
        let Some(place) = connections.clusters.enter(connections.config.load().max_connections) else {
            debug!(%peer, "too many connections");
            connections.metrics.ended(Outcome::Limit);
            return;
        };
        let (connections, door) = (connections.clone(), door.load_full());
        tasks.spawn("connection", OnExit::LogError, async move {
            connections.serve(stream, peer, &door).await;
            drop(place);
            Ok(())
        });
    };
    loop {
        let accepted = tokio::select! {
            () = connections.shutdown.requested() => break,
            _ = &mut kept => {
                info!(%address, "gateway does not listen there any more");
                break;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => start(stream, peer),
            Err(error) => accept_failed("gateway", error).await?,
        }
    }
    for (stream, peer) in listener.accept_waiting() {
        start(stream, peer);
    }
    Ok(())
}

/// Only addresses and ports are of use.
fn trim(endpoints: &mut Endpoints) {
    endpoints.metadata.annotations = None;
    endpoints.metadata.labels = None;
    for subset in endpoints.subsets.iter_mut().flatten() {
        subset.not_ready_addresses = None;
        for address in subset.addresses.iter_mut().flatten() {
            address.target_ref = None;
        }
    }
}

// === impl Handle ===

impl Handle {
    /// The hosts that are served, with the routes that have them.
    pub fn hosts(&self) -> Vec<(String, RouteKey)> {
        self.hosts.all()
    }

    /// What the controllers of routes are at, for the debug page.
    pub fn statuses(&self) -> Vec<(String, ControllerStatus)> {
        self.statuses.iter().map(|(name, handle)| (name.to_string(), handle.status())).collect()
    }

    /// Where it listens: first for everybody, then at further listeners, then for those who want out, as configured.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.doors.addresses()
    }

    /// Takes another configuration, for connections that come from now on. Answers the keys whose change takes effect only
    /// when the gateway is started again.
    ///
    /// # Errors
    ///
    /// When it contradicts itself, or a port is not to be had; then everything stays as it is.
    pub fn reconfigure(&self, mut config: Config) -> Result<Vec<&'static str>, Error> {
        config.check()?;
        let doors = self.doors.prepare(&config)?;
        let before = self.config.load();
        let mut later = Vec::new();
        let mut keep = |key, differs: bool| {
            if differs {
                later.push(key);
            }
        };
        keep("listen", config.listen != before.listen);
        keep("management_clusters", config.management_clusters != before.management_clusters);
        keep("name", config.name != before.name);
        config.listen = before.listen;
        config.management_clusters.clone_from(&before.management_clusters);
        config.name.clone_from(&before.name);
        let config = Arc::new(config);
        self.config.store(config.clone());
        // After it counts, so that whoever comes through a new door finds what goes with it.
        doors.make();
        // After it counts, so that nobody brings them back.
        for gone in before.egress.clusters.keys().filter(|name| !config.egress.clusters.contains_key(*name)) {
            self.clusters.forget(&ClusterName::configured(gone));
        }
        self.metrics.reloaded(Reload::Taken);
        Ok(later)
    }

    pub(crate) fn refused_configuration(&self) {
        self.metrics.reloaded(Reload::Refused);
    }

    fn verdict(&self) -> Verdict {
        let unknown = self.sources.iter().filter(|(_, source)| !source.is_synced());
        let mut unknown: Vec<_> = unknown.map(|(name, _)| name.to_string()).collect();
        unknown.sort();
        if unknown.is_empty() {
            Verdict::ready("routes are known")
        } else if unknown.len() == self.sources.len() {
            Verdict::failed("routes and endpoints have not been listed yet")
        } else {
            // The others' clusters are served all the same.
            Verdict::warning(format!("routes of {} have not been listed yet", unknown.join(", ")))
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Handle").field("hosts", &self.hosts.all().len()).finish()
    }
}
