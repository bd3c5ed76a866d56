//! Watching the nodes of hosted clusters.
//!
//! One watch per cluster that has node pools, through the cluster's published address. It begins when the cluster is
//! available and ends with the cluster, or with its last pool. Where a pool follows the load there is one of pods, too.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client};
use pilothouse_informer::{Informer, ObjectKey, watcher};
use pilothouse_runtime::reconcile::Handle;
use pilothouse_runtime::{Reason, Shutdown, Tasks};
use tracing::warn;

use crate::caches::Caches;
use crate::names;

/// Who signs what nodes show to their visitors.
pub(crate) const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";

/// How long a watch may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The watches, by cluster.
#[derive(Default)]
pub(crate) struct HostedNodes {
    watched: Mutex<HashMap<ObjectKey, Watched>>,
    pools: OnceLock<Handle<ObjectKey>>,
    caches: OnceLock<Caches>,
}

struct Watched {
    /// Of the credentials that it watches with.
    digest: u64,
    client: Client,
    nodes: Informer<Node>,
    /// What nodes ask to be signed, where somebody has to approve it.
    requests: Option<Informer<CertificateSigningRequest>>,
    pods: Option<Informer<Pod>>,
    /// The pools that follow the load.
    followers: Followers,
    tasks: Tasks,
}

type Followers = Arc<Mutex<BTreeSet<ObjectKey>>>;

// === impl HostedNodes ===

impl HostedNodes {
    /// Says whom to wake when a node changes. Comes later than the rest, because that controller needs this.
    pub(crate) fn connect(&self, pools: Handle<ObjectKey>, caches: Caches) {
        // A second call would be a second controller of the same pools; the first stays.
        let _ = self.pools.set(pools);
        let _ = self.caches.set(caches);
    }

    /// Asks for a pass over a pool.
    pub(crate) fn wake(&self, pool: ObjectKey) {
        if let Some(pools) = self.pools.get() {
            pools.wake(pool);
        }
    }

    /// Watches a cluster's nodes with these credentials, if nobody does. Whether that is new.
    /// With `requests`, also what they ask to be signed.
    pub(crate) async fn watch(
        &self,
        cluster: &ObjectKey,
        digest: u64,
        client: Client,
        requests: bool,
    ) -> bool {
        if self.lock().get(cluster).is_some_and(|watched| watched.digest == digest) {
            return false;
        }
        self.stop(cluster).await;
        let tasks = Tasks::new("hypershift-nodes", Shutdown::new());
        let namespace = cluster.namespace.clone().unwrap_or_default();
        let pools = self.pools.get().cloned();
        let nodes = Informer::new(Api::<Node>::all(client.clone()), watcher::Config::default())
            .trim(|node| {
                if let Some(status) = &mut node.status {
                    status.images = None;
                }
            })
            .on_change(move |node| {
                let pool = node.metadata.labels.as_ref().and_then(|labels| labels.get(names::NODE_POOL));
                if let (Some(pools), Some(pool)) = (&pools, pool) {
                    pools.wake(ObjectKey::namespaced(&namespace, pool));
                }
            })
            .spawn(&tasks, "nodes");
        let requests = requests.then(|| self.watch_requests(cluster, &client, &tasks));
        let followers = Followers::default();
        let watched = Watched { digest, client, nodes, requests, pods: None, followers, tasks };
        self.lock().insert(cluster.clone(), watched);
        true
    }

    /// Which pool a node belongs to is known by the pools: each of them looks.
    fn watch_requests(
        &self,
        cluster: &ObjectKey,
        client: &Client,
        tasks: &Tasks,
    ) -> Informer<CertificateSigningRequest> {
        let (pools, cluster) = (self.pools.get().cloned(), cluster.clone());
        let caches = self.caches.get().cloned();
        let serving = watcher::Config::default().fields(&format!("spec.signerName={KUBELET_SERVING}"));
        Informer::new(Api::<CertificateSigningRequest>::all(client.clone()), serving)
            .on_change(move |_| {
                if let (Some(pools), Some(caches)) = (&pools, &caches) {
                    caches.pools_of(&cluster).into_iter().for_each(|pool| pools.wake(pool));
                }
            })
            .spawn(tasks, "requests")
    }

    /// What the cluster's nodes ask to be signed, where somebody has to approve it.
    pub(crate) fn requests(&self, cluster: &ObjectKey) -> Option<Informer<CertificateSigningRequest>> {
        self.lock().get(cluster)?.requests.clone()
    }

    /// The cluster's pods, for a pool that follows the load and is woken when one of them waits for room.
    pub(crate) fn pods(&self, cluster: &ObjectKey, pool: &ObjectKey) -> Option<Informer<Pod>> {
        let mut all = self.lock();
        let watched = all.get_mut(cluster)?;
        watched.followers.lock().unwrap_or_else(PoisonError::into_inner).insert(pool.clone());
        if let Some(pods) = &watched.pods {
            return Some(pods.clone());
        }
        let (pools, followers) = (self.pools.get().cloned(), watched.followers.clone());
        let api: Api<Pod> = Api::all(watched.client.clone());
        let pods = Informer::new(api, watcher::Config::default())
            .trim(|pod| {
                pod.metadata.managed_fields = None;
                pod.metadata.annotations = None;
                if let Some(spec) = &mut pod.spec {
                    spec.volumes = None;
                    for container in &mut spec.containers {
                        (container.env, container.volume_mounts, container.command) = (None, None, None);
                    }
                }
            })
            .on_change(move |pod| {
                // A pod that has its place is no reason to hurry.
                let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
                if let (Some(pools), false) = (&pools, placed) {
                    for follower in followers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                        pools.wake(follower.clone());
                    }
                }
            })
            .spawn(&watched.tasks, "pods");
        watched.pods = Some(pods.clone());
        Some(pods)
    }

    /// The cluster's nodes and a client for it, while they are watched.
    pub(crate) fn of(&self, cluster: &ObjectKey) -> Option<(Informer<Node>, Client)> {
        self.lock().get(cluster).map(|watched| (watched.nodes.clone(), watched.client.clone()))
    }

    /// Ends the watch of a cluster, if there is one.
    pub(crate) async fn stop(&self, cluster: &ObjectKey) {
        let watched = self.lock().remove(cluster);
        if let Some(watched) = watched {
            watched.stop().await;
        }
    }

    /// Ends all of them.
    pub(crate) async fn stop_all(&self) {
        let all: Vec<_> = self.lock().drain().map(|(_, watched)| watched).collect();
        futures::future::join_all(all.iter().map(Watched::stop)).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Watched ===

impl Watched {
    async fn stop(&self) {
        self.tasks.shutdown().request(Reason::Asked("the nodes are no longer watched".to_owned()));
        if let Err(error) = self.tasks.drain(PATIENCE).await {
            warn!(%error, "watch of nodes had to be cut off");
        }
    }
}
