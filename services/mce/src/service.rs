use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, ResourceExt as _};
use pilothouse_crds::{ConsoleCLIDownload, HostedCluster, ManagedCluster, ManifestWork, MultiClusterEngine};
use pilothouse_informer::{Informer, ObjectKey, watcher};
use pilothouse_runtime::reconcile::{Handle, Options};
use pilothouse_runtime::{Clock, Controller, Shutdown, Tasks};
use pilothouse_work::{Engine, Hub};
use prometheus_client::registry::Registry;

use crate::downloads::{Downloads, Links};
use crate::managed_cluster::{Index, LOCAL_CLUSTER, ManagedClusters, Parts};
use crate::metrics::Metrics;
use crate::multi_cluster_engine::{DOWNLOAD, Engines, Wishes};
use crate::presence::HYPERSHIFT;
use crate::work::Works;
use crate::{Config, Error};

/// How long passes that run may take to finish at shutdown.
const DRAIN: Duration = Duration::from_secs(20);

/// What the engine needs from outside.
pub struct Deps<'a> {
    /// The management cluster, which serves the definitions of `pilothouse-crds`.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// Where its numbers are kept.
    pub registry: &'a mut Registry,
}

/// The multicluster engine.
pub struct Service {
    config: Config,
    client: Client,
    clock: Clock,
    metrics: Metrics,
    downloads: Option<Downloads>,
}

/// Wakes all managed clusters when an engine wants something else than before; its status, which changes more often,
/// concerns none of them.
struct WishChanges {
    engines: Informer<MultiClusterEngine>,
    last: Mutex<Option<Wishes>>,
    clusters: Handle<ObjectKey>,
}

// === impl WishChanges ===

impl WishChanges {
    fn look(&self) {
        let now = Wishes::of(&self.engines.list());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != now {
            *last = now;
            self.clusters.wake_all();
        }
    }
}

// === impl Service ===

impl Service {
    /// Puts it together, and takes the port for downloads. Nothing is watched before [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// When the port is not to be had.
    pub fn build(config: Config, deps: Deps<'_>) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, deps))
    }

    async fn assemble(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { client, clock, registry } = deps;
        let downloads = match &config.downloads {
            Some(config) => Some(Downloads::bind(config, &clock, registry).await?),
            None => None,
        };
        Ok(Self { config, client, clock, metrics: Metrics::new(registry), downloads })
    }

    /// Runs until shutdown, and returns when the passes that were running have finished.
    ///
    /// # Errors
    ///
    /// When they did not finish in time.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(mut self, shutdown: Shutdown) -> Result<(), Error> {
        let tasks = Tasks::new("mce", shutdown.clone());
        let downloads = self.downloads.take();
        let links = downloads.as_ref().map(Downloads::links);
        if let Some(downloads) = downloads {
            downloads.spawn(&tasks);
        }
        let options = Options { concurrency: self.config.concurrency, ..Options::default() };
        tokio::select! {
            () = async {
                // One after the other would be one round trip after the other.
                tokio::join!(
                    self.spawn_clusters(&tasks, links, options.clone()),
                    self.spawn_works(&tasks, options),
                );
                shutdown.requested().await;
            } => {}
            () = shutdown.requested() => {}
        }
        Ok(tasks.drain(DRAIN).await?)
    }

    /// The controllers of engines and of managed clusters, which look at each other's objects.
    async fn spawn_clusters(&self, tasks: &Tasks, links: Option<Links>, options: Options) {
        let everything = watcher::Config::default;
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let client = &self.client;
        let managed = Informer::new(Api::<ManagedCluster>::all(client.clone()), everything());
        let hosted = Informer::new(Api::<HostedCluster>::all(client.clone()), everything());
        let engines = Informer::new(Api::<MultiClusterEngine>::all(client.clone()), everything());
        let downloads = Informer::new(Api::<ConsoleCLIDownload>::all(client.clone()), named(DOWNLOAD));
        let (namespace, lease) = HYPERSHIFT;
        let leases = Informer::new(Api::<Lease>::namespaced(client.clone(), namespace), named(lease));
        let index = Arc::new(Index::default());
        let of_clusters = Controller::new(
            "managed-clusters",
            ManagedClusters::new(Parts {
                client: client.clone(),
                clock: self.clock.clone(),
                clusters: managed.informer(),
                hosted: hosted.informer(),
                engines: engines.informer(),
                index: index.clone(),
                auto_import: self.config.auto_import,
                api_url: self.config.api_url.clone(),
            }),
            options.clone(),
        );
        let of_engines = Controller::new(
            "multi-cluster-engines",
            Engines {
                client: client.clone(),
                clock: self.clock.clone(),
                engines: engines.informer(),
                clusters: managed.informer(),
                downloads: downloads.informer(),
                leases: leases.informer(),
                links,
                auto_import: self.config.auto_import,
            },
            options,
        );
        let (clusters, wake_engines) = (of_clusters.handle(), of_engines.handle());
        let cache = hosted.informer();
        let hosted = hosted.on_change({
            let clusters = clusters.clone();
            move |hosted| {
                let is_there = cache.get(&ObjectKey::of(hosted)).is_some();
                if let Some(cluster) = index.hear(hosted, is_there) {
                    clusters.wake(cluster);
                }
            }
        });
        let managed = managed.on_change({
            let (clusters, engines) = (clusters.clone(), wake_engines.clone());
            move |cluster| {
                clusters.wake(ObjectKey::of(cluster));
                if cluster.name_any() == LOCAL_CLUSTER {
                    engines.wake_all();
                }
            }
        });
        let wishes = WishChanges { engines: engines.informer(), last: Mutex::default(), clusters };
        let engines = engines.on_change({
            let wake = wake_engines.clone();
            move |_| {
                // Every engine: the one that counts may be another now.
                wake.wake_all();
                wishes.look();
            }
        });
        let downloads = downloads.on_change({
            let wake = wake_engines.clone();
            move |_| wake.wake_all()
        });
        let leases = leases.on_change(move |_| wake_engines.wake_all());
        let (managed, hosted) =
            (managed.spawn(tasks, "managed-clusters"), hosted.spawn(tasks, "hosted-clusters"));
        let engines = engines.spawn(tasks, "multi-cluster-engines");
        let (downloads, leases) = (downloads.spawn(tasks, "downloads"), leases.spawn(tasks, "leases"));
        // A pass before the caches are full would take what it misses for gone.
        tokio::join!(
            managed.synced(),
            hosted.synced(),
            engines.synced(),
            downloads.synced(),
            leases.synced()
        );
        of_clusters.spawn(tasks);
        of_engines.spawn(tasks);
    }

    async fn spawn_works(&self, tasks: &Tasks, options: Options) {
        let namespace = self.config.namespace.clone();
        let works = Informer::new(
            Api::<ManifestWork>::namespaced(self.client.clone(), &namespace),
            watcher::Config::default(),
        )
        .trim(|work| {
            work.spec.workload.manifests.clear();
            work.status = None;
        });
        // The engine wakes the controller, which needs the engine.
        let handle = Arc::new(OnceLock::<Handle<ObjectKey>>::new());
        let engine = Engine::new(pilothouse_work::Options {
            client: self.client.clone(),
            hub: Hub::new(&namespace),
            clock: self.clock.clone(),
            tasks: tasks.clone(),
            json_raw_limit: self.config.json_raw_limit,
            wake: Arc::new({
                let (handle, namespace) = (handle.clone(), namespace.clone());
                move |work| {
                    if let Some(handle) = handle.get() {
                        handle.wake(ObjectKey::namespaced(&namespace, work));
                    }
                }
            }),
        });
        let reconciler = Works {
            client: self.client.clone(),
            clock: self.clock.clone(),
            namespace,
            works: works.informer(),
            engine,
            metrics: self.metrics.clone(),
        };
        let controller = Controller::new("works", reconciler, options);
        let of_works = handle.get_or_init(|| controller.handle()).clone();
        let works = works.on_change(move |work| of_works.wake(ObjectKey::of(work))).spawn(tasks, "works");
        works.synced().await;
        controller.spawn(tasks);
    }
}
