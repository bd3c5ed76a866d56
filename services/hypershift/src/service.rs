use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::reconcile::{ControllerStatus, Handle, Options};
use pilothouse_runtime::{Clock, Controller, Shutdown, Tasks};
use prometheus_client::registry::Registry;
use tokio::sync::OnceCell;

use crate::caches::{Caches, Watches};
use crate::events::Writer;
use crate::hosted_cluster::{Furnished, HostedClusters};
use crate::hosted_nodes::HostedNodes;
use crate::metrics::Metrics;
use crate::node_pool::{Idle, Introduced, NodePools};
use crate::published::Published;
use crate::{Config, Error, events, supported_versions};

/// How long passes that run may take to finish at shutdown.
const DRAIN: Duration = Duration::from_secs(20);

/// What the operator needs from outside.
pub struct Deps<'a> {
    /// The management cluster, which serves the definitions of `pilothouse-crds`.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// Where its numbers are kept.
    pub registry: &'a mut Registry,
}

/// The operator.
pub struct Service {
    client: Client,
    namespace: String,
    watches: Watches,
    caches: Caches,
    nodes: Arc<HostedNodes>,
    events: Writer,
    clusters: Controller<HostedClusters>,
    pools: Controller<NodePools>,
}

// === impl Service ===

impl Service {
    /// Puts it together. Nothing is watched before [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// None yet; the shape is that of every service.
    pub fn build(config: Config, deps: Deps<'_>) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, deps))
    }

    async fn assemble(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { client, clock, registry } = deps;
        let watches = Watches::new(&client);
        let caches = watches.caches();
        let nodes = Arc::new(HostedNodes::default());
        let options = Options { concurrency: config.concurrency, ..Options::default() };
        let (events, writer) = events::channel();
        let clusters = HostedClusters {
            client: client.clone(),
            clock: clock.clone(),
            config: config.clone(),
            caches: caches.clone(),
            published: Arc::new(Published::new(&config)),
            nodes: nodes.clone(),
            metrics: Metrics::new(registry, caches.clone(), clock.clone()),
            events: events.clone(),
            furnished: Furnished::default(),
            priority_class: OnceCell::new(),
        };
        let (own_client, namespace) = (client.clone(), config.namespace.clone());
        let pools = NodePools {
            client,
            clock,
            config,
            caches: caches.clone(),
            nodes: nodes.clone(),
            events,
            introduced: Introduced::default(),
            idle: Idle::default(),
        };
        let clusters = Controller::new("hosted-clusters", clusters, options.clone());
        let pools = Controller::new("node-pools", pools, options);
        nodes.connect(pools.handle(), caches.clone());
        Ok(Self { client: own_client, namespace, watches, caches, nodes, events: writer, clusters, pools })
    }

    /// What each controller is at, for the debug page and for tests that wait until nothing is left to do.
    pub fn handles(&self) -> [Handle<ObjectKey>; 2] {
        [self.clusters.handle(), self.pools.handle()]
    }

    /// What each controller is at now.
    pub fn status(&self) -> [ControllerStatus; 2] {
        self.handles().map(|handle| handle.status())
    }

    /// Runs until shutdown, and returns when the passes that were running have finished.
    ///
    /// # Errors
    ///
    /// When they did not finish in time.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(self, shutdown: Shutdown) -> Result<(), Error> {
        let Self { client, namespace, watches, caches, nodes, events, clusters, pools } = self;
        let tasks = Tasks::new("hypershift", shutdown.clone());
        supported_versions::spawn(&tasks, &client, &namespace);
        events.spawn(&tasks, client);
        watches.spawn(&tasks, &clusters.handle(), &pools.handle());
        // A pass before the caches are full would take everything for missing.
        tokio::select! {
            () = caches.synced() => {
                clusters.spawn(&tasks);
                pools.spawn(&tasks);
            }
            () = shutdown.requested() => {}
        }
        shutdown.requested().await;
        let drained = tasks.drain(DRAIN).await;
        nodes.stop_all().await;
        Ok(drained?)
    }
}
