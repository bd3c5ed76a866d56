use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::{Api, Client};
use pilothouse_crds::{HostedCluster, ManagedCluster, ManifestWork};
use pilothouse_informer::{Informer, ObjectKey, watcher};
use pilothouse_runtime::reconcile::Options;
use pilothouse_runtime::{Clock, Controller, Shutdown, Tasks};
use pilothouse_work::{Engine, Hub};
use prometheus_client::registry::Registry;

use crate::managed_cluster::{Index, ManagedClusters};
use crate::metrics::Metrics;
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
}

// === impl Service ===

impl Service {
    /// Puts it together. Nothing is watched before [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// None yet; the shape is that of every service.
    pub async fn build(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { client, clock, registry } = deps;
        Ok(Self { config, client, clock, metrics: Metrics::new(registry) })
    }

    /// Runs until shutdown, and returns when the passes that were running have finished.
    ///
    /// # Errors
    ///
    /// When they did not finish in time.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        let tasks = Tasks::new("mce", shutdown.clone());
        let options = Options { concurrency: self.config.concurrency, ..Options::default() };
        tokio::select! {
            () = async {
                self.spawn_managed_clusters(&tasks, options.clone()).await;
                self.spawn_works(&tasks, options).await;
                shutdown.requested().await;
            } => {}
            () = shutdown.requested() => {}
        }
        Ok(tasks.drain(DRAIN).await?)
    }

    async fn spawn_managed_clusters(&self, tasks: &Tasks, options: Options) {
        let everything = watcher::Config::default;
        let managed = Informer::new(Api::<ManagedCluster>::all(self.client.clone()), everything());
        let hosted = Informer::new(Api::<HostedCluster>::all(self.client.clone()), everything());
        let index = Arc::new(Index::default());
        let reconciler = ManagedClusters {
            client: self.client.clone(),
            clock: self.clock.clone(),
            clusters: managed.informer(),
            hosted: hosted.informer(),
            index: index.clone(),
        };
        let controller = Controller::new("managed-clusters", reconciler, options);
        let handle = controller.handle();
        let (of_managed, of_hosted) = (handle.clone(), handle);
        let cache = hosted.informer();
        let hosted = hosted
            .on_change({
                let index = index.clone();
                move |hosted| {
                    if let Some(cluster) = index.hear(hosted) {
                        if cache.get(&ObjectKey::of(hosted)).is_none() {
                            index.forget(&cluster.name);
                        }
                        of_hosted.wake(cluster);
                    }
                }
            })
            .spawn(tasks, "hosted-clusters");
        let managed = managed
            .on_change(move |cluster| of_managed.wake(ObjectKey::of(cluster)))
            .spawn(tasks, "managed-clusters");
        managed.synced().await;
        hosted.synced().await;
        controller.spawn(tasks);
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
        let handle = Arc::new(OnceLock::<pilothouse_runtime::reconcile::Handle<ObjectKey>>::new());
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
