//! What the operator knows of the management cluster without asking.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, Resource};
use pilothouse_crds::{
    CertificateRevocationRequest, CertificateSigningRequestApproval, HostedCluster, HostedControlPlane,
    Machine, NodePool, Route, VirtualMachine,
};
use pilothouse_informer::{Builder, Informer, ObjectKey, watcher};
use pilothouse_runtime::Tasks;
use pilothouse_runtime::reconcile::Handle;
use serde::de::DeserializeOwned;

use crate::hosted_cluster::{Kind, concerns};
use crate::names::{self, MANAGED_BY, OPERATOR};

/// One cache per kind.
#[derive(Clone, Debug)]
pub(crate) struct Caches {
    pub(crate) clusters: Informer<HostedCluster>,
    pub(crate) pools: Informer<NodePool>,
    pub(crate) namespaces: Informer<Namespace>,
    pub(crate) secrets: Informer<Secret>,
    pub(crate) config_maps: Informer<ConfigMap>,
    pub(crate) services: Informer<Service>,
    pub(crate) stateful_sets: Informer<StatefulSet>,
    pub(crate) routes: Informer<Route>,
    pub(crate) pods: Informer<Pod>,
    pub(crate) control_planes: Informer<HostedControlPlane>,
    pub(crate) machines: Informer<Machine>,
    pub(crate) virtual_machines: Informer<VirtualMachine>,
    pub(crate) requests: Informer<CertificateSigningRequest>,
    pub(crate) approvals: Informer<CertificateSigningRequestApproval>,
    pub(crate) revocations: Informer<CertificateRevocationRequest>,
}

/// The watches behind them, not yet begun: their callbacks need controllers, which need the caches.
pub(crate) struct Watches {
    clusters: Builder<HostedCluster>,
    pools: Builder<NodePool>,
    namespaces: Builder<Namespace>,
    secrets: Builder<Secret>,
    config_maps: Builder<ConfigMap>,
    services: Builder<Service>,
    stateful_sets: Builder<StatefulSet>,
    routes: Builder<Route>,
    pods: Builder<Pod>,
    control_planes: Builder<HostedControlPlane>,
    /// Secrets and ConfigMaps of others, some of which clusters name. Nothing of them is kept but that they are there.
    foreign_secrets: Builder<Secret>,
    foreign_config_maps: Builder<ConfigMap>,
    machines: Builder<Machine>,
    virtual_machines: Builder<VirtualMachine>,
    requests: Builder<CertificateSigningRequest>,
    approvals: Builder<CertificateSigningRequestApproval>,
    revocations: Builder<CertificateRevocationRequest>,
}

// === impl Watches ===

impl Watches {
    pub(crate) fn new(client: &Client) -> Self {
        Self {
            clusters: all(client, watcher::Config::default()),
            pools: all(client, watcher::Config::default()),
            namespaces: all(client, ours()),
            secrets: all(client, ours()),
            config_maps: all(client, ours()),
            services: all(client, ours()),
            stateful_sets: all(client, ours()),
            routes: all(client, ours()),
            // The volumes are most of a pod, each with a place for every kind of volume there is, and nobody reads them here.
            pods: all(client, ours()).trim(|pod: &mut Pod| {
                if let Some(spec) = &mut pod.spec {
                    spec.volumes = None;
                }
            }),
            control_planes: all(client, ours()),
            foreign_secrets: all(client, foreign()).trim(|secret: &mut Secret| {
                let data = secret.data.iter().flatten().map(|(key, value)| (key, value.0.as_slice()));
                let metadata = bare(&secret.metadata, data);
                *secret = Secret { metadata, ..Secret::default() };
            }),
            foreign_config_maps: all(client, foreign()).trim(|config_map: &mut ConfigMap| {
                let text = config_map.data.iter().flatten().map(|(key, value)| (key, value.as_bytes()));
                let binary = config_map.binary_data.iter().flatten();
                let data = text.chain(binary.map(|(key, value)| (key, value.0.as_slice())));
                let metadata = bare(&config_map.metadata, data);
                *config_map = ConfigMap { metadata, ..ConfigMap::default() };
            }),
            machines: all(client, ours()),
            virtual_machines: all(client, ours()),
            // Made by whoever wants to be let in, or wants everybody locked out.
            requests: all(client, watcher::Config::default()),
            approvals: all(client, watcher::Config::default()),
            revocations: all(client, watcher::Config::default()),
        }
    }

    pub(crate) fn caches(&self) -> Caches {
        Caches {
            clusters: self.clusters.informer(),
            pools: self.pools.informer(),
            namespaces: self.namespaces.informer(),
            secrets: self.secrets.informer(),
            config_maps: self.config_maps.informer(),
            services: self.services.informer(),
            stateful_sets: self.stateful_sets.informer(),
            routes: self.routes.informer(),
            pods: self.pods.informer(),
            control_planes: self.control_planes.informer(),
            machines: self.machines.informer(),
            virtual_machines: self.virtual_machines.informer(),
            requests: self.requests.informer(),
            approvals: self.approvals.informer(),
            revocations: self.revocations.informer(),
        }
    }

    /// Begins to watch. Whatever changes wakes the cluster or the pool that it belongs to.
    pub(crate) fn spawn(self, tasks: &Tasks, clusters: &Handle<ObjectKey>, pools: &Handle<ObjectKey>) {
        let caches = self.caches();
        let wakes = Wakes { clusters: clusters.clone(), pools: pools.clone() };
        let (of_cluster, of_pool) = (wakes.clone(), wakes.clone());
        let of_foreign = caches.clone();
        self.clusters
            .on_change(move |cluster| {
                let key = ObjectKey::of(cluster);
                // A pool waits for its cluster to be available, and for it to go.
                for pool in pools_of(&caches.pools, &key) {
                    of_cluster.pools.wake(pool);
                }
                of_cluster.clusters.wake(key);
            })
            .spawn(tasks, "hosted-clusters");
        self.pools
            .on_change(move |pool| {
                let key = ObjectKey::of(pool);
                let cluster = ObjectKey::namespaced(key.namespace_or_empty(), &pool.spec.cluster_name);
                of_pool.clusters.wake(cluster);
                of_pool.pools.wake(key);
            })
            .spawn(tasks, "node-pools");
        wakes.spawn(self.namespaces, tasks, "namespaces");
        wakes.spawn(self.secrets, tasks, "secrets");
        wakes.spawn(self.config_maps, tasks, "config-maps");
        wakes.spawn(self.services, tasks, "services");
        wakes.spawn(self.stateful_sets, tasks, "stateful-sets");
        wakes.spawn(self.routes, tasks, "routes");
        wakes.spawn(self.pods, tasks, "pods");
        wakes.spawn(self.control_planes, tasks, "control-planes");
        wakes.spawn_foreign(self.foreign_secrets, Kind::Secret, &of_foreign, tasks, "foreign-secrets");
        wakes.spawn_foreign(
            self.foreign_config_maps,
            Kind::ConfigMap,
            &of_foreign,
            tasks,
            "foreign-config-maps",
        );
        wakes.spawn(self.machines, tasks, "machines");
        wakes.spawn(self.virtual_machines, tasks, "virtual-machines");
        let (of_request, caches) = (wakes.clone(), of_foreign.clone());
        self.requests
            .on_change(move |request| {
                // By whoever approves of it: until somebody does, it is nobody's business.
                let name = request.metadata.name.as_deref().unwrap_or_default();
                for approval in caches.approvals.keys().iter().filter(|approval| approval.name == name) {
                    if let Some(cluster) = caches.owner(approval.namespace_or_empty()) {
                        of_request.clusters.wake(cluster);
                    }
                }
            })
            .spawn(tasks, "certificate-requests");
        wakes.spawn_beside(self.approvals, &of_foreign, tasks, "certificate-approvals");
        wakes.spawn_beside(self.revocations, &of_foreign, tasks, "certificate-revocations");
    }
}

// === impl Caches ===

impl Caches {
    /// Returns once all of them have been filled.
    pub(crate) async fn synced(&self) {
        self.clusters.synced().await;
        self.pools.synced().await;
        self.namespaces.synced().await;
        self.secrets.synced().await;
        self.config_maps.synced().await;
        self.services.synced().await;
        self.stateful_sets.synced().await;
        self.routes.synced().await;
        self.pods.synced().await;
        self.control_planes.synced().await;
        self.machines.synced().await;
        self.virtual_machines.synced().await;
        self.requests.synced().await;
        self.approvals.synced().await;
        self.revocations.synced().await;
    }

    /// The cluster whose control plane is in a namespace.
    fn owner(&self, namespace: &str) -> Option<ObjectKey> {
        names::cluster_of(&self.namespaces.get(&ObjectKey::cluster(namespace))?.metadata)
    }

    /// The pools of a cluster.
    pub(crate) fn pools_of(&self, cluster: &ObjectKey) -> Vec<ObjectKey> {
        pools_of(&self.pools, cluster)
    }
}

#[derive(Clone)]
struct Wakes {
    clusters: Handle<ObjectKey>,
    pools: Handle<ObjectKey>,
}

impl Wakes {
    fn spawn<K>(&self, watch: Builder<K>, tasks: &Tasks, name: &str)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let wakes = self.clone();
        watch
            .on_change(move |object| match names::node_pool_of(object.meta()) {
                Some(pool) => wakes.pools.wake(pool),
                None => {
                    if let Some(cluster) = names::cluster_of(object.meta()) {
                        wakes.clusters.wake(cluster);
                    }
                }
            })
            .spawn(tasks, name);
    }
}

impl Wakes {
    /// What others put into the namespace of a control plane wakes its cluster.
    fn spawn_beside<K>(&self, watch: Builder<K>, caches: &Caches, tasks: &Tasks, name: &str)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let (wakes, caches) = (self.clone(), caches.clone());
        watch
            .on_change(move |object| {
                if let Some(cluster) = caches.owner(ObjectKey::of(object).namespace_or_empty()) {
                    wakes.clusters.wake(cluster);
                }
            })
            .spawn(tasks, name);
    }

    /// Whatever a cluster or a pool names wakes it when it comes, when what is in it changes, or when it goes. What is only
    /// written on it wakes nobody: each cluster puts a mark there, and clusters that name the same object would all wake each other.
    fn spawn_foreign<K>(&self, watch: Builder<K>, kind: Kind, caches: &Caches, tasks: &Tasks, name: &str)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let (wakes, caches) = (self.clone(), caches.clone());
        let (present, contents) = (watch.informer(), Mutex::<HashMap<ObjectKey, Option<i64>>>::default());
        watch
            .on_change(move |object| {
                let key = ObjectKey::of(object);
                let content = present.get(&key).map(|object| object.meta().generation);
                let mut contents = contents.lock().unwrap_or_else(PoisonError::into_inner);
                let before = match content {
                    Some(content) => contents.insert(key.clone(), content),
                    None => contents.remove(&key),
                };
                drop(contents);
                if content.is_some() && before == content {
                    return;
                }
                for cluster in caches.clusters.list_in(key.namespace_or_empty()) {
                    if concerns(&cluster, kind, &key.name) {
                        wakes.clusters.wake(ObjectKey::of(cluster.as_ref()));
                    }
                }
                let configures =
                    |pool: &NodePool| pool.spec.config.iter().any(|named| named.name == key.name);
                let pools = caches.pools.list_in(key.namespace_or_empty()).into_iter();
                for pool in pools.filter(|pool| kind == Kind::ConfigMap && configures(pool)) {
                    wakes.pools.wake(ObjectKey::of(pool.as_ref()));
                }
            })
            .spawn(tasks, name);
    }
}

fn all<K>(client: &Client, config: watcher::Config) -> Builder<K>
where
    K: Resource<DynamicType = ()>,
{
    Informer::new(Api::all(client.clone()), config)
}

fn ours() -> watcher::Config {
    watcher::Config::default().labels(&format!("{MANAGED_BY}={OPERATOR}"))
}

fn foreign() -> watcher::Config {
    watcher::Config::default().labels(&format!("{MANAGED_BY}!={OPERATOR}"))
}

/// What an object is called, and nothing else. Its generation, which the server does not count for such objects, tells one content
/// from another.
fn bare<'a>(metadata: &ObjectMeta, data: impl Iterator<Item = (&'a String, &'a [u8])>) -> ObjectMeta {
    let mut hasher = DefaultHasher::new();
    data.for_each(|entry| entry.hash(&mut hasher));
    ObjectMeta {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        generation: Some(hasher.finish().cast_signed()),
        ..ObjectMeta::default()
    }
}

fn pools_of(pools: &Informer<NodePool>, cluster: &ObjectKey) -> Vec<ObjectKey> {
    pools
        .list_in(cluster.namespace_or_empty())
        .iter()
        .filter(|pool| pool.spec.cluster_name == cluster.name)
        .map(|pool| ObjectKey::of(pool.as_ref()))
        .collect()
}
