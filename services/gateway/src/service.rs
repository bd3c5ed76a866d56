//! The gateway, put together.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use pilothouse_http::Health;
use pilothouse_runtime::reconcile::ControllerStatus;
use pilothouse_runtime::{
    Clock, OnExit, Reason, Shutdown, TaskError, Tasks, accept_failed, descriptor_limit,
};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use crate::address::Addresses;
use crate::cluster::{ClusterName, Clusters};
use crate::config::{Config, Reach};
use crate::connection::Connections;
use crate::doors::{Bound, Door, Doors};
use crate::error::Error;
use crate::follow::{Following, Parts};
use crate::management::Management;
use crate::metrics::{Metrics, Outcome, Reload};
use crate::resolve::Resolver;
use crate::route::{Hosts, RouteKey};
use crate::stream::Stream;
use crate::waiting::WaitingRoom;
use crate::watch::{Watch, watch_all};

/// What the gateway needs from outside.
pub struct Deps<'a> {
    /// The management clusters that are not of the configuration: they are followed whatever it says, and it cannot name another
    /// one as one of them. Those of the configuration the gateway connects to itself.
    pub management: Vec<Management>,
    /// The time.
    pub clock: Clock,
    /// Where to say whether it works.
    pub health: Health,
    /// Where to count.
    pub registry: &'a mut Registry,
}

/// The gateway.
pub struct Service {
    config: Arc<ArcSwap<Config>>,
    /// For everybody.
    public: Bound,
    /// Further ones, as they are opened.
    further: mpsc::UnboundedReceiver<Bound>,
    /// What is to be watched, as management clusters come.
    watches: mpsc::UnboundedReceiver<Watch>,
    resolver: Resolver,
    clusters: Arc<Clusters>,
    metrics: Metrics,
    handle: Handle,
}

/// Shows what the gateway serves, and changes how. A cheap handle.
#[derive(Clone)]
pub struct Handle {
    doors: Doors,
    hosts: Arc<Hosts>,
    following: Following,
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
    /// When the configuration contradicts itself, a port is not to be had, or a kubeconfig is of no use.
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
        let parts = Parts {
            hosts: hosts.clone(),
            clusters: clusters.clone(),
            clock,
            health: health.clone(),
            name: config.name.clone(),
        };
        let (following, watches) = Following::new(parts);
        for given in management {
            following.give(given);
        }
        following.prepare(&config.management_clusters)?.make();
        let config = Arc::new(ArcSwap::from_pointee(config));
        let handle = Handle {
            doors,
            hosts: hosts.clone(),
            following: following.clone(),
            config: config.clone(),
            clusters: clusters.clone(),
            metrics: metrics.clone(),
        };
        let ready = handle.clone();
        health.register("gateway", move || ready.following.verdict());
        let resolver = Resolver { hosts, following };
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
        // In tasks, so that a panic in one is noticed.
        let watching = watch_all(self.watches, self.config.clone(), closing.clone());
        tasks.spawn("watch", OnExit::StopProcess, watching);
        let connections = Arc::new(Connections {
            config: self.config.clone(),
            resolver: self.resolver,
            clusters: self.clusters,
            addresses: Addresses::new(),
            waiting: WaitingRoom::default(),
            metrics: self.metrics,
            shutdown: closing.clone(),
        });
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

// === impl Handle ===

impl Handle {
    /// The hosts that are served, with the routes that have them.
    pub fn hosts(&self) -> Vec<(String, RouteKey)> {
        self.hosts.all()
    }

    /// What the controllers of routes are at, for the debug page.
    pub fn statuses(&self) -> Vec<(String, ControllerStatus)> {
        self.following.statuses()
    }

    /// Where it listens: first for everybody, then at further listeners, then for those who want out, as configured.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.doors.addresses()
    }

    /// Takes another configuration, for connections that come from now on. Answers the keys whose change takes effect only
    /// when the gateway is started again. Blocks as long as reading kubeconfigs takes.
    ///
    /// A new way to a management cluster begins to count when it has been heard, and that may be while this goes on. If `config`
    /// asks for the way that counted until then, it does not get that one back: the new one stays until the next call.
    ///
    /// # Errors
    ///
    /// When it contradicts itself, a port is not to be had, or a kubeconfig is of no use; then everything stays as it is.
    pub fn reconfigure(&self, mut config: Config) -> Result<Vec<&'static str>, Error> {
        config.check()?;
        let management = self.following.prepare(&config.management_clusters)?;
        let doors = self.doors.prepare(&config)?;
        let before = self.config.load();
        let mut later = Vec::new();
        let mut keep = |key, differs: bool| {
            if differs {
                later.push(key);
            }
        };
        keep("listen", config.listen != before.listen);
        keep("name", config.name != before.name);
        config.listen = before.listen;
        config.name.clone_from(&before.name);
        let config = Arc::new(config);
        self.config.store(config.clone());
        // After it counts, so that whoever comes through a new door finds what goes with it.
        doors.make();
        management.make();
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

    /// Whether management clusters are followed as this configuration and the files that it names say.
    pub(crate) fn is_as_in_files(&self, config: &Config) -> bool {
        self.following.is_as_in_files(&config.management_clusters)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Handle").field("hosts", &self.hosts.all().len()).finish()
    }
}
