//! The gateway, put together.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Endpoints;
use kube::{Api, Client};
use pilothouse_crds::Route;
use pilothouse_http::{Health, Verdict};
use pilothouse_informer::{Builder, Informer, ObjectKey, watcher};
use pilothouse_runtime::reconcile::{ControllerStatus, Options};
use pilothouse_runtime::{Clock, Controller, OnExit, Shutdown, Tasks};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::{debug, info, warn};

use crate::config::Config;
use crate::connection::Connections;
use crate::dial::Dial;
use crate::error::Error;
use crate::metrics::{Metrics, Outcome};
use crate::resolve::Resolver;
use crate::route::{Hosts, Routes};

/// How long to wait after an accept failed, which mostly means that there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the gateway needs from outside.
pub struct Deps<'a> {
    /// The management cluster, for routes and endpoints.
    pub client: Client,
    /// How endpoints are reached.
    pub dialer: Arc<dyn Dial>,
    /// The time.
    pub clock: Clock,
    /// Where to say whether it works.
    pub health: Health,
    /// Where to count.
    pub registry: &'a mut Registry,
}

/// The gateway.
pub struct Service {
    config: Arc<Config>,
    listener: TcpListener,
    address: SocketAddr,
    routes: Builder<Route>,
    endpoints: Builder<Endpoints>,
    resolver: Resolver,
    controller: Controller<Routes>,
    dialer: Arc<dyn Dial>,
    metrics: Metrics,
    handle: Handle,
}

/// Shows what the gateway serves. A cheap handle.
#[derive(Clone)]
pub struct Handle {
    hosts: Arc<Hosts>,
    routes: Informer<Route>,
    endpoints: Informer<Endpoints>,
    status: pilothouse_runtime::reconcile::Handle<ObjectKey>,
}

// === impl Service ===

impl Service {
    /// Takes the port. Nothing is accepted yet.
    ///
    /// # Errors
    ///
    /// When the port is not to be had.
    pub async fn build(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { client, dialer, clock, health, registry } = deps;
        let bind_error = |source| Error::Bind { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(bind_error)?;
        let address = listener.local_addr().map_err(bind_error)?;

        let hosts = Arc::new(Hosts::default());
        let routes = Informer::new(Api::<Route>::all(client.clone()), watcher::Config::default());
        let endpoints =
            Informer::new(Api::<Endpoints>::all(client.clone()), watcher::Config::default()).trim(trim);
        let (known_routes, known_endpoints) = (routes.informer(), endpoints.informer());
        let reconciler = Routes {
            client,
            routes: known_routes.clone(),
            hosts: hosts.clone(),
            clock,
            name: config.name.clone(),
        };
        let controller = Controller::new("routes", reconciler, Options::default());
        let wake = controller.handle();
        let routes = routes.on_change({
            let (hosts, known) = (hosts.clone(), known_routes.clone());
            move |route| {
                let key = ObjectKey::of(route);
                let current = known.get(&key);
                hosts.update(&key, current.as_deref()).into_iter().for_each(|key| wake.wake(key));
            }
        });
        let handle = Handle {
            hosts: hosts.clone(),
            routes: known_routes.clone(),
            endpoints: known_endpoints.clone(),
            status: controller.handle(),
        };
        let ready = handle.clone();
        health.register("gateway", move || ready.verdict());
        Ok(Self {
            config: Arc::new(config),
            listener,
            address,
            routes,
            endpoints,
            resolver: Resolver {
                hosts,
                routes: known_routes,
                endpoints: known_endpoints,
                turn: Arc::default(),
            },
            controller,
            dialer,
            metrics: Metrics::new(registry),
            handle,
        })
    }

    /// Where it listens: the port that was given if zero was asked for.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Shows what the gateway serves.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until shutdown, and then until every connection has come to an end or the time for that is over.
    ///
    /// # Errors
    ///
    /// When not everything ends in time.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        let tasks = Tasks::new("gateway", shutdown.clone());
        let drain = self.config.drain_timeout.0;
        self.routes.spawn(&tasks, "routes");
        self.endpoints.spawn(&tasks, "endpoints");
        self.controller.spawn(&tasks);
        let connections = Connections {
            config: self.config.clone(),
            resolver: self.resolver,
            dialer: self.dialer,
            metrics: self.metrics,
            shutdown: shutdown.clone(),
        };
        info!(address = %self.address, "gateway listens");
        // In a task, so that a panic in it is noticed.
        tasks.spawn("accept", OnExit::StopProcess, accept(self.listener, connections, tasks.clone()));
        shutdown.requested().await;
        match tasks.drain(drain).await {
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
        formatter.debug_struct("Service").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Accepts until shutdown.
async fn accept(
    listener: TcpListener,
    connections: Connections,
    tasks: Tasks,
) -> Result<(), pilothouse_runtime::TaskError> {
    let places = Arc::new(Semaphore::new(connections.config.max_connections));
    loop {
        let accepted = tokio::select! {
            () = connections.shutdown.requested() => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            debug!(%peer, "too many connections");
            connections.metrics.ended(Outcome::Limit);
            continue;
        };
        let connections = connections.clone();
        tasks.spawn("connection", OnExit::LogError, async move {
            connections.serve(stream, peer).await;
            drop(place);
            Ok(())
        });
    }
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
    pub fn hosts(&self) -> Vec<(String, ObjectKey)> {
        self.hosts.all()
    }

    /// What the controller of routes is at, for the debug page.
    pub fn status(&self) -> ControllerStatus {
        self.status.status()
    }

    fn verdict(&self) -> Verdict {
        if self.routes.is_synced() && self.endpoints.is_synced() {
            Verdict::ready("routes are known")
        } else {
            Verdict::failed("routes and endpoints have not been listed yet")
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Handle").field("hosts", &self.hosts.all().len()).finish()
    }
}
