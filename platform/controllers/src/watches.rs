//! One watch per resource, shared by all controllers.
//!
//! Building comes in two steps, because controllers read the caches and the watches wake the controllers: first all
//! [`Watches`] are made, and controllers get the [`Caches`] that they will fill; then the controllers add whom to wake,
//! and the watches begin.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, ContainerStatus, Endpoints, Namespace, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, ReplicationController, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ApiResource;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource};
use pilothouse_informer::{Builder, Informer, ObjectKey, watcher};
use pilothouse_runtime::Tasks;
use serde::de::DeserializeOwned;

use crate::bootstrap_token;
use crate::inventory::Inventory;
use crate::namespace_defaults::ROOT_AUTHORITY;

type Listener<K> = Box<dyn Fn(&K) + Send + Sync>;

/// A watch that has not begun.
pub(crate) struct Watch<K> {
    builder: Builder<K>,
    listeners: Vec<Listener<K>>,
}

/// Makes [`Watches`] and [`Caches`] from one list of resources.
macro_rules! resources {
    ($($field:ident: $kind:ty = $name:literal, $trim:expr;)*) => {
        /// All watches that controllers share.
        pub(crate) struct Watches {
            $(pub(crate) $field: Watch<$kind>,)*
            /// Only those that hold the root authority: a second watch of config maps, since their content is needed
            /// of these and must not be kept of the others.
            pub(crate) root_authorities: Watch<ConfigMap>,
            /// Only those Secrets that are tokens of joining nodes.
            pub(crate) bootstrap_tokens: Watch<Secret>,
            /// Only the one that introduces the cluster.
            pub(crate) cluster_info: Watch<ConfigMap>,
        }

        /// What they have seen. Cheap handles.
        #[derive(Clone)]
        pub(crate) struct Caches {
            $(pub(crate) $field: Informer<$kind>,)*
            pub(crate) root_authorities: Informer<ConfigMap>,
            pub(crate) bootstrap_tokens: Informer<Secret>,
            pub(crate) cluster_info: Informer<ConfigMap>,
        }

        impl Watches {
            pub(crate) fn new(client: &Client) -> Self {
                let named = watcher::Config::default().fields(&format!("metadata.name={ROOT_AUTHORITY}"));
                let token = watcher::Config::default().fields(&format!("type={}", bootstrap_token::TYPE));
                let tokens = Api::namespaced(client.clone(), bootstrap_token::NAMESPACE);
                let info = format!("metadata.name={}", bootstrap_token::CLUSTER_INFO);
                let info = watcher::Config::default().fields(&info);
                let infos = Api::namespaced(client.clone(), bootstrap_token::PUBLIC);
                Self {
                    $($field: Watch::new(client, watcher::Config::default(), $trim),)*
                    root_authorities: Watch::new(client, named, |_| ()),
                    bootstrap_tokens: Watch::of(tokens, token, |_| ()),
                    cluster_info: Watch::of(infos, info, |_| ()),
                }
            }

            pub(crate) fn caches(&self) -> Caches {
                Caches {
                    $($field: self.$field.builder.informer(),)*
                    root_authorities: self.root_authorities.builder.informer(),
                    bootstrap_tokens: self.bootstrap_tokens.builder.informer(),
                    cluster_info: self.cluster_info.builder.informer(),
                }
            }

            /// Lets the inventory know of everything that is watched here, so that it need not watch it itself.
            pub(crate) fn feed(&mut self, inventory: &Arc<Inventory>) {
                $(self.$field.feed(inventory);)*
            }

            pub(crate) fn spawn(self, tasks: &Tasks) {
                $(self.$field.spawn(tasks, $name);)*
                self.root_authorities.spawn(tasks, "root-authorities");
                self.bootstrap_tokens.spawn(tasks, "bootstrap-tokens");
                self.cluster_info.spawn(tasks, "cluster-info");
            }
        }

        impl Caches {
            /// Returns once every first list is there.
            pub(crate) async fn synced(&self) {
                $(self.$field.synced().await;)*
                self.root_authorities.synced().await;
                self.bootstrap_tokens.synced().await;
                self.cluster_info.synced().await;
            }
        }
    };
}

resources! {
    namespaces: Namespace = "namespaces", |_| ();
    nodes: Node = "nodes", trim_node;
    leases: Lease = "leases", |_| ();
    pods: Pod = "pods", trim_pod;
    services: Service = "services", trim_annotations;
    endpoints: Endpoints = "endpoints", |_| ();
    endpoint_slices: EndpointSlice = "endpointslices", |_| ();
    deployments: Deployment = "deployments", |_| ();
    replica_sets: ReplicaSet = "replicasets", |_| ();
    replication_controllers: ReplicationController = "replicationcontrollers", |_| ();
    stateful_sets: StatefulSet = "statefulsets", |_| ();
    daemon_sets: DaemonSet = "daemonsets", |_| ();
    revisions: ControllerRevision = "controllerrevisions", |_| ();
    jobs: Job = "jobs", |_| ();
    cron_jobs: CronJob = "cronjobs", |_| ();
    budgets: PodDisruptionBudget = "poddisruptionbudgets", |_| ();
    claims: PersistentVolumeClaim = "persistentvolumeclaims", trim_claim;
    volumes: PersistentVolume = "persistentvolumes", trim_annotations;
    certificate_requests: CertificateSigningRequest = "certificatesigningrequests", trim_annotations;
    storage_classes: StorageClass = "storageclasses", |_| ();
    service_accounts: PartialObjectMeta<ServiceAccount> = "serviceaccounts", trim_annotations;
    definitions: PartialObjectMeta<CustomResourceDefinition> = "customresourcedefinitions", trim_annotations;
}

// === impl Watch ===

impl<K> Watch<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    fn new(client: &Client, config: watcher::Config, trim: fn(&mut K)) -> Self {
        Self::of(Api::all(client.clone()), config, trim)
    }

    fn of(api: Api<K>, config: watcher::Config, trim: fn(&mut K)) -> Self {
        Self { builder: Informer::new(api, config).trim(trim), listeners: Vec::new() }
    }

    /// Calls back after every change, when the cache already holds it.
    pub(crate) fn listen(&mut self, listener: impl Fn(&K) + Send + Sync + 'static) {
        self.listeners.push(Box::new(listener));
    }

    fn feed(&mut self, inventory: &Arc<Inventory>) {
        let resource = Arc::new(ApiResource::erase::<K>(&()));
        inventory.covers(&resource);
        let (inventory, cache) = (inventory.clone(), self.builder.informer());
        self.listen(move |object| {
            let key = ObjectKey { namespace: object.meta().namespace.clone(), name: name(object) };
            if cache.get(&key).is_some() {
                inventory.seen(&resource, object.meta());
            } else {
                inventory.gone(&resource, &key);
            }
        });
    }

    fn spawn(self, tasks: &Tasks, name: &str) {
        let listeners = self.listeners;
        let notify = move |object: &K| listeners.iter().for_each(|listener| listener(object));
        self.builder.on_change(notify).spawn(tasks, name);
    }
}

fn name<K: Resource>(object: &K) -> String {
    object.meta().name.clone().unwrap_or_default()
}

/// Annotations can be the largest part of an object, and of most kinds nobody reads them.
fn trim_annotations<K: Resource>(object: &mut K) {
    object.meta_mut().annotations = None;
}

fn trim_node(node: &mut Node) {
    trim_annotations(node);
    if let Some(status) = &mut node.status {
        status.images = None;
        status.volumes_attached = None;
        status.volumes_in_use = None;
    }
}

fn trim_claim(claim: &mut PersistentVolumeClaim) {
    trim_annotations_but(claim, &[crate::scheduler::SELECTED_NODE]);
}

/// Of a pod, controllers read where it may run, what it asks for, its ports by name, the claims it uses, and how it is
/// doing or how it ended.
fn trim_pod(pod: &mut Pod) {
    trim_annotations_but(pod, &[crate::replica_set::DELETION_COST, crate::job::INDEX, crate::job::FAILURES]);
    if let Some(spec) = &mut pod.spec {
        spec.init_containers.iter_mut().flatten().for_each(trim_container);
        spec.containers.iter_mut().for_each(trim_container);
        if let Some(volumes) = &mut spec.volumes {
            volumes.retain(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some());
            // The places of the others are two kilobytes each.
            volumes.shrink_to_fit();
        }
    }
    if let Some(status) = &mut pod.status {
        status.ephemeral_container_statuses = None;
        let statuses = [&mut status.container_statuses, &mut status.init_container_statuses];
        statuses.into_iter().flatten().flatten().for_each(trim_container_status);
    }
}

fn trim_container(container: &mut Container) {
    *container = Container {
        name: std::mem::take(&mut container.name),
        ports: container.ports.take(),
        resources: container.resources.take(),
        restart_policy: container.restart_policy.take(),
        ..Container::default()
    };
}

fn trim_container_status(status: &mut ContainerStatus) {
    *status = ContainerStatus {
        name: std::mem::take(&mut status.name),
        restart_count: status.restart_count,
        state: status.state.take().filter(|state| state.terminated.is_some()),
        ..ContainerStatus::default()
    };
}

fn trim_annotations_but<K: Resource>(object: &mut K, kept: &[&str]) {
    if let Some(annotations) = &mut object.meta_mut().annotations {
        annotations.retain(|name, _| kept.contains(&name.as_str()));
    }
}
