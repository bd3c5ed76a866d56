//! The controllers, put together.

use std::fmt::{self, Display};
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::ReplicationController;
use kube::Client;
use pilothouse_informer::ObjectKey;
use pilothouse_pki::Authority;
use pilothouse_runtime::reconcile::{ControllerStatus, Options};
use pilothouse_runtime::{Clock, Controller, OnExit, Reconcile, Shutdown, Tasks};
use prometheus_client::registry::Registry;
use tracing::info;

use crate::bootstrap_token::{self, BootstrapTokens};
use crate::certificate_request::{self, CertificateRequests};
use crate::config::Config;
use crate::cron_job::CronJobs;
use crate::daemon_set::DaemonSets;
use crate::deployment::Deployments;
use crate::discovery::{Finder, Refresh, Resources};
use crate::disruption::Disruptions;
use crate::endpoints::EndpointsOfServices;
use crate::error::Error;
use crate::events;
use crate::garbage::Collector;
use crate::inventory::{Inventory, Listener};
use crate::job::Jobs;
use crate::metrics::Metrics;
use crate::namespace::Emptier;
use crate::namespace_defaults::NamespaceDefaults;
use crate::node_lifecycle::{self, Evictions, NodeLifecycle};
use crate::node_range::{NodeRanges, Shares};
use crate::replica_set::ReplicaSets;
use crate::scheduler::{self, Scheduler};
use crate::stateful_set::StatefulSets;
use crate::volume::{self, Protection, Volumes};
use crate::watches::{Caches, Watches};

mod wakes;

/// How long passes that run may still take at shutdown.
const DRAIN: Duration = Duration::from_secs(10);

/// How long to wait for the first list of resources that only the inventory watches. One that is broken must not keep
/// everything else from running.
const INVENTORY: Duration = Duration::from_secs(10);

/// What the controllers need from outside.
pub struct Deps<'a> {
    /// The API server. It has to be allowed everything.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// The authority that signs for the API server, published in every namespace.
    pub root_authority_pem: String,
    /// The cluster's authority for clients, which signs what is approved. Without it nothing is signed.
    pub signing_authority: Option<Authority>,
    /// Where joining nodes reach the API server. Without it the cluster does not introduce itself to them.
    pub server: Option<String>,
    /// Where volumes have their folders, on the nodes. Without it claims are not provided for.
    pub volume_root: Option<PathBuf>,
    /// Where to count.
    pub registry: &'a mut Registry,
}

/// The controllers of one cluster.
pub struct Service {
    parts: Vec<Box<dyn Part>>,
    /// In a box, because everybody who runs the service holds it.
    watches: Box<Watches>,
    caches: Caches,
    inventory: Arc<Inventory>,
    resources: Resources,
    client: Client,
    resync: Duration,
    events: events::Writer,
    handle: Handle,
}

/// Shows what the controllers are at. A cheap handle.
#[derive(Clone, Default)]
pub struct Handle {
    statuses: Arc<Vec<StatusOf>>,
}

type StatusOf = Box<dyn Fn() -> ControllerStatus + Send + Sync>;

/// A controller of any kind of key.
trait Part: Send {
    fn start(self: Box<Self>, tasks: &Tasks);
}

// === impl Service ===

impl Service {
    /// Puts the controllers together. Nothing runs yet.
    ///
    /// # Errors
    ///
    /// When the configuration cannot be used.
    pub fn build(config: Config, deps: Deps<'_>) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, deps))
    }

    async fn assemble(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { client, clock, root_authority_pem, signing_authority, server, volume_root, registry } =
            deps;
        let shares = config.cluster_cidr.as_deref().map(|range| Shares::new(range, config.node_cidr_mask));
        let shares = shares.transpose()?;
        let metrics = Metrics::new(registry);
        let mut watches = Watches::new(&client);
        let caches = watches.caches();
        let inventory = Arc::new(Inventory::default());
        let resources = Resources::default();
        // First of all, so that whoever is woken finds the inventory up to date.
        watches.feed(&inventory);
        let mut assembly =
            Assembly { options: options(config.resync.0), parts: Vec::new(), statuses: Vec::new() };
        let mut listeners: Vec<Listener> = Vec::new();
        let (recorder, events) = events::channel(client.clone(), clock.clone());

        if config.deployments {
            let recorder = recorder("deployment-controller");
            let controller = Deployments::new(client.clone(), caches.clone(), clock.clone(), recorder);
            wakes::deployments(&mut watches, &caches, &assembly.add("deployments", controller));
        }
        if config.replica_sets {
            let recorder = recorder("replicaset-controller");
            let controller =
                ReplicaSets::<ReplicaSet>::new(client.clone(), caches.clone(), clock.clone(), recorder);
            wakes::replica_sets(&mut watches, &caches, &assembly.add("replica-sets", controller));
        }
        if config.replication_controllers {
            let recorder = recorder("replication-controller");
            let (client, caches, clock) = (client.clone(), caches.clone(), clock.clone());
            let known = caches.clone();
            let controller = ReplicaSets::<ReplicationController>::new(client, caches, clock, recorder);
            let handle = assembly.add("replication-controllers", controller);
            wakes::replication_controllers(&mut watches, &known, &handle);
        }
        if config.stateful_sets {
            let recorder = recorder("statefulset-controller");
            let controller = StatefulSets::new(client.clone(), caches.clone(), clock.clone(), recorder);
            wakes::stateful_sets(&mut watches, &caches, &assembly.add("stateful-sets", controller));
        }
        if config.daemon_sets {
            let recorder = recorder("daemonset-controller");
            let controller = DaemonSets::new(client.clone(), caches.clone(), clock.clone(), recorder);
            wakes::daemon_sets(&mut watches, &caches, &assembly.add("daemon-sets", controller));
        }
        if config.jobs {
            let recorder = recorder("job-controller");
            let controller = Jobs::new(client.clone(), caches.clone(), clock.clone(), recorder);
            wakes::jobs(&mut watches, &caches, &assembly.add("jobs", controller));
        }
        if config.cron_jobs {
            let recorder = recorder("cronjob-controller");
            let controller = CronJobs::new(client.clone(), caches.clone(), clock.clone(), recorder);
            wakes::cron_jobs(&mut watches, &assembly.add("cron-jobs", controller));
        }
        if config.disruption_budgets {
            let recorder = recorder("controllermanager");
            let controller = Disruptions::new(client.clone(), caches.clone(), clock.clone(), recorder);
            wakes::disruptions(&mut watches, &caches, &assembly.add("disruption-budgets", controller));
        }
        if config.scheduler {
            let shared = Arc::new(scheduler::Shared::default());
            let controller = Scheduler::new(
                client.clone(),
                caches.clone(),
                clock.clone(),
                metrics.clone(),
                recorder(scheduler::NAME),
                shared.clone(),
            );
            wakes::scheduler(&mut watches, &caches, &shared, &assembly.add("scheduler", controller));
        }
        if config.endpoints {
            let controller = EndpointsOfServices::new(client.clone(), caches.clone());
            wakes::endpoints(&mut watches, &caches, &assembly.add("endpoints", controller));
        }
        if config.certificate_requests {
            let settings = certificate_request::Settings {
                lifetime: config.certificate_lifetime.0,
                serving: config.approve_serving_certificates,
            };
            let (client, caches, clock) = (client.clone(), caches.clone(), clock.clone());
            let of_node = caches.clone();
            let controller = CertificateRequests::new(client, caches, clock, signing_authority, settings);
            let handle = assembly.add("certificate-requests", controller);
            wakes::certificate_requests(&mut watches, of_node, &handle);
        }
        if config.bootstrap_tokens {
            let introduction =
                server.map(|server| bootstrap_token::introduction(&server, &root_authority_pem));
            let controller =
                BootstrapTokens::new(client.clone(), caches.clone(), clock.clone(), introduction);
            wakes::bootstrap_tokens(&mut watches, &assembly.add("bootstrap-tokens", controller));
        }
        if config.namespace_defaults {
            let controller = NamespaceDefaults::new(client.clone(), caches.clone(), root_authority_pem);
            wakes::namespace_defaults(&mut watches, &assembly.add("namespace-defaults", controller));
        }
        if config.namespaces {
            let controller = Emptier::new(
                client.clone(),
                caches.clone(),
                inventory.clone(),
                resources.clone(),
                clock.clone(),
                metrics.clone(),
            );
            let handle = assembly.add("namespaces", controller);
            listeners.push(wakes::namespaces(&mut watches, &caches, &handle));
        }
        if config.garbage_collection {
            let controller =
                Collector::new(client.clone(), inventory.clone(), resources.clone(), metrics.clone());
            let handle = assembly.add("garbage", controller);
            listeners.push(Box::new(Collector::on_change(&inventory, handle)));
        }
        if config.node_ranges
            && let Some(shares) = shares
        {
            let controller = NodeRanges::new(client.clone(), caches.clone(), shares);
            wakes::nodes(&mut watches, &assembly.add("node-ranges", controller));
        }
        if config.node_lifecycle {
            let controller = NodeLifecycle::new(
                client.clone(),
                caches.clone(),
                clock.clone(),
                metrics.clone(),
                recorder("node-controller"),
                config.node_grace.0,
            );
            wakes::node_lifecycle(&mut watches, &caches, &assembly.add("node-lifecycle", controller));
            let recorder = recorder("taint-eviction-controller");
            let controller = Evictions::new(client.clone(), caches.clone(), clock.clone(), recorder);
            wakes::evictions(&mut watches, &caches, &assembly.add("taint-eviction", controller));
        }
        if config.volumes
            && let Some(root) = volume_root
        {
            let recorder = recorder("persistentvolume-controller");
            let controller = Volumes::new(client.clone(), caches.clone(), root, metrics.clone(), recorder);
            wakes::volumes(&mut watches, &assembly.add("volumes", controller));
        }
        if config.volumes {
            let controller = Protection::new(client.clone(), caches.clone());
            wakes::protection(&mut watches, &assembly.add("volume-protection", controller));
        }
        inventory.listen(listeners);
        let handle = Handle { statuses: Arc::new(assembly.statuses) };
        Ok(Self {
            parts: assembly.parts,
            watches: Box::new(watches),
            caches,
            inventory,
            resources,
            client,
            resync: config.resync.0,
            events,
            handle,
        })
    }

    /// Shows what the controllers are at.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs until shutdown: watches first, and controllers once all caches are filled.
    ///
    /// # Errors
    ///
    /// When not everything ends in time.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(mut self, shutdown: Shutdown) -> Result<(), Error> {
        let tasks = Tasks::new("controllers", shutdown.clone());
        let finder = Finder::new(
            self.client.clone(),
            self.caches.clone(),
            self.resources.clone(),
            self.inventory.clone(),
            tasks.clone(),
        );
        let finder = Arc::new(finder);
        let discovery = Controller::new("discovery", Refresh(finder.clone()), options(self.resync));
        wakes::discovery(&mut self.watches, &discovery.handle());
        self.watches.spawn(&tasks);
        let (events, until) = (self.events, shutdown.clone());
        tasks.spawn("events", OnExit::StopProcess, async move {
            events.run(until).await;
            Ok(())
        });
        discovery.spawn(&tasks);
        let ready = async {
            self.caches.synced().await;
            self.resources.found().await;
            // In vain only if some resource cannot be listed, which the log says.
            let _ = tokio::time::timeout(INVENTORY, finder.synced()).await;
        };
        tokio::select! {
            () = shutdown.requested() => {}
            () = ready => {
                info!(controllers = self.parts.len(), "caches are filled");
                for part in self.parts {
                    part.start(&tasks);
                }
                shutdown.requested().await;
            }
        }
        tasks.drain(DRAIN).await.map_err(Error::Drain)
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Service").field("controllers", &self.parts.len()).finish_non_exhaustive()
    }
}

fn options(resync: Duration) -> Options {
    // A pass is a few calls to one server; one that takes a minute hangs.
    Options { resync, concurrency: 8, pass_limit: Duration::from_secs(60), ..Options::default() }
}

/// Controllers while they are being put together.
struct Assembly {
    options: Options,
    parts: Vec<Box<dyn Part>>,
    statuses: Vec<StatusOf>,
}

impl Assembly {
    fn add<R: Reconcile>(
        &mut self,
        name: &str,
        reconciler: R,
    ) -> pilothouse_runtime::reconcile::Handle<R::Key> {
        let controller = Controller::new(name, reconciler, self.options.clone());
        let handle = controller.handle();
        let status = handle.clone();
        self.statuses.push(Box::new(move || status.status()));
        self.parts.push(Box::new(controller));
        handle
    }
}

impl<R: Reconcile> Part for Controller<R>
where
    R::Key: Clone + Eq + Hash + Display,
{
    fn start(self: Box<Self>, tasks: &Tasks) {
        self.spawn(tasks);
    }
}

// === impl Handle ===

impl Handle {
    /// What each controller is at, for the debug page.
    pub fn statuses(&self) -> Vec<ControllerStatus> {
        self.statuses.iter().map(|status| status()).collect()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Handle").field("controllers", &self.statuses.len()).finish()
    }
}

/// The key of the lease of a node, as the node's own.
fn node_of_lease(key: &ObjectKey) -> Option<ObjectKey> {
    (key.namespace.as_deref() == Some(node_lifecycle::LEASES)).then(|| ObjectKey::cluster(&key.name))
}

/// The passes over claims and volumes that a change of one of them asks for.
fn volume_keys(volume: &k8s_openapi::api::core::v1::PersistentVolume) -> Vec<volume::Key> {
    let claim = Volumes::claim_of(volume).map(volume::Key::Claim);
    [volume::Key::Volume(ObjectKey::of(volume))].into_iter().chain(claim).collect()
}
