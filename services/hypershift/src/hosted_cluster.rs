//! The controller of hosted clusters.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::try_join;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use pilothouse_crds::{
    Condition, ConditionStatus, HostedCluster, HostedClusterStatus, NodePool, Route, is_condition_true,
    set_condition,
};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Chain, Clock, Next, Reconcile, TaskError};
use rand::Rng as _;
use serde_json::json;
use tracing::{debug, info};

use crate::Config;
use crate::apply;
use crate::caches::Caches;
use crate::error::{Error, is_missing};
use crate::hosted_nodes::HostedNodes;
use crate::metrics::Metrics;
use crate::names::{self, API_SERVER, FINALIZER};
use crate::pause::Pause;
use crate::pod::{is_pod_ready, pod_state};
use crate::published::{self, Published};
use crate::secrets::{self, Keyring};

mod blueprint;
mod deletion;
mod manifests;
pub(crate) mod pki;
mod status;
#[cfg(test)]
mod tests;

use blueprint::{Blueprint, Refusal};
use deletion::{Remaining, Step};
use pki::Pki;
use status::Observed;

/// How soon an API server that runs and does not answer is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

pub(crate) struct HostedClusters {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) config: Config,
    pub(crate) caches: Caches,
    pub(crate) published: Arc<Published>,
    pub(crate) nodes: Arc<HostedNodes>,
    pub(crate) metrics: Metrics,
}

/// How far a pass came.
struct Seen {
    infrastructure: Result<(), String>,
    kubeconfig: bool,
    workload: Result<(), String>,
    answer: Result<(), String>,
}

// === impl HostedClusters ===

impl Reconcile for HostedClusters {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.caches.clusters.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        match self.pass(key).await {
            // Whoever wrote in between has thereby caused the next pass; this only makes sure of it.
            Err(error) if error.is_conflict() => Ok(Next::After(ASK_AGAIN)),
            outcome => Ok(outcome?),
        }
    }
}

impl HostedClusters {
    async fn pass(&self, key: &ObjectKey) -> Result<Next, Error> {
        // Not from the cache: a status computed from an older status would be refused.
        let found = self.clusters(key).get_opt(&key.name).await;
        let Some(cluster) = found.map_err(|error| Error::management("show", describe(key), error))? else {
            self.forget(key).await;
            return Ok(Next::Done);
        };
        if cluster.metadata.deletion_timestamp.is_some() {
            return self.delete(key, cluster).await;
        }
        let now = self.clock.now();
        let pause = Pause::read(cluster.spec.paused_until.as_deref(), now);
        if let Some(message) = pause.message() {
            let previous = cluster.status.clone().unwrap_or_default();
            let status = status::observe_pause(&previous, cluster.metadata.generation, &message, now);
            self.write_status(key, cluster, status).await?;
            return Ok(match pause {
                Pause::Until(until) => Next::After(self.clock.until(until)),
                _ => Next::Done,
            });
        }
        match Blueprint::draw(&cluster, &self.config) {
            Ok(blueprint) => self.build_and_observe(key, cluster, &blueprint).await,
            Err(refusal) => {
                debug!(cluster = %key, condition = refusal.condition, reason = refusal.message, "refused");
                let status = self.observe(&cluster, Err(&refusal), Seen::nothing(), None);
                self.write_status(key, cluster, status).await?;
                Ok(Next::Done)
            }
        }
    }

    async fn build_and_observe(
        &self,
        key: &ObjectKey,
        cluster: HostedCluster,
        blueprint: &Blueprint,
    ) -> Result<Next, Error> {
        let cluster = self.claim(key, cluster).await?;
        let mut seen = Seen::nothing();
        // It holds all requests that are under way at once.
        let built = Box::pin(self.build(blueprint, &mut seen)).await;
        let ask_again = seen.workload.is_ok() && seen.answer.is_err();
        let error = built.as_ref().err().map(|error| Chain(error).to_string());
        let status = self.observe(&cluster, Ok(blueprint), seen, error);
        self.write_status(key, cluster, status).await?;
        built?;
        Ok(if ask_again { Next::After(ASK_AGAIN) } else { Next::Done })
    }

    /// Makes sure of everything a control plane consists of, and looks how it is. What was seen is kept also when
    /// something fails half-way.
    async fn build(&self, blueprint: &Blueprint, seen: &mut Seen) -> Result<(), Error> {
        let namespace = blueprint.namespace.as_str();
        let here = |name: &str| ObjectKey::namespaced(namespace, name);

        let cached = self.caches.namespaces.get(&ObjectKey::cluster(namespace));
        let namespaces: Api<Namespace> = Api::all(self.client());
        let made = apply::ensure(&namespaces, cached, &manifests::namespace(blueprint)).await?;
        if made.metadata.deletion_timestamp.is_some() {
            seen.infrastructure =
                Err(format!("namespace {namespace} of an earlier cluster is still being deleted"));
            return Ok(());
        }

        let services: Api<Service> = Api::namespaced(self.client(), namespace);
        let routes: Api<Route> = Api::namespaced(self.client(), namespace);
        let keyring =
            Keyring { client: &self.client, cache: &self.caches.secrets, clock: &self.clock, namespace };
        let (service, route) = (manifests::service(blueprint), manifests::route(blueprint));
        let (service, _, (), pki) = try_join!(
            apply::ensure(&services, self.caches.services.get(&here(API_SERVER)), &service),
            apply::ensure(&routes, self.caches.routes.get(&here(API_SERVER)), &route),
            self.copy_signing_key(blueprint),
            Pki::ensure(&keyring, blueprint),
        )?;
        let Some(address) = cluster_address(&service) else {
            seen.infrastructure = Err(format!("Service {namespace}/{API_SERVER} has no address yet"));
            return Ok(());
        };
        seen.infrastructure = Ok(());

        let config_maps: Api<ConfigMap> = Api::namespaced(self.client(), namespace);
        let config_map = manifests::config_map(
            blueprint,
            address,
            &pki.root.identity().chain_pem(),
            &pki.clients.identity().chain_pem(),
        )?;
        apply::ensure(&config_maps, self.caches.config_maps.get(&here(API_SERVER)), &config_map).await?;

        // Last, so that no pod starts before what it reads is there: a kubelet is slow to look again.
        let beside = blueprint.cluster.namespace_or_empty();
        let secrets: Api<Secret> = Api::namespaced(self.client(), beside);
        let stateful_sets: Api<StatefulSet> = Api::namespaced(self.client(), namespace);
        let kubeconfig =
            pki.admin_kubeconfig(blueprint, &format!("https://{}", self.config.publish_address))?;
        let secret = manifests::admin_kubeconfig(blueprint, &kubeconfig);
        let cached = self.caches.secrets.get(&ObjectKey::namespaced(beside, secret.name_any()));
        let workload = manifests::stateful_set(blueprint, &self.config.image);
        try_join!(
            apply::ensure(&secrets, cached, &secret),
            apply::ensure(&stateful_sets, self.caches.stateful_sets.get(&here(API_SERVER)), &workload),
        )?;
        seen.kubeconfig = true;

        seen.workload = workload_runs(&self.caches.pods.list_in(namespace), &blueprint.config_hash());
        if seen.workload.is_ok() {
            let client = self.published.client(&blueprint.cluster, &kubeconfig).await?;
            seen.answer = published::is_ready(&client).await;
        }
        if seen.answer.is_ok() {
            self.watch_nodes(&blueprint.cluster).await;
        }
        Ok(())
    }

    /// Nodes are watched while there are pools that want to know of them.
    async fn watch_nodes(&self, cluster: &ObjectKey) {
        if self.caches.pools_of(cluster).is_empty() {
            self.nodes.stop(cluster).await;
        } else if let Some((digest, client)) = self.published.known(cluster)
            && self.nodes.watch(cluster, digest, client).await
        {
            for pool in self.caches.pools_of(cluster) {
                self.nodes.wake(pool);
            }
        }
    }

    /// A signing key that the user brought, under the name and key that ours would have.
    async fn copy_signing_key(&self, blueprint: &Blueprint) -> Result<(), Error> {
        let Some(name) = &blueprint.signing_key else { return Ok(()) };
        let beside = blueprint.cluster.namespace_or_empty();
        let missing = || Error::Secret { secret: format!("{beside}/{name}"), key: "key", source: None };
        let source = Api::<Secret>::namespaced(self.client(), beside).get_opt(name).await;
        let source =
            source.map_err(|error| Error::management("show", format!("Secret {beside}/{name}"), error))?;
        let key = source.and_then(|secret| secret.data?.remove("key")).ok_or_else(missing)?;
        let copy = secrets::secret(
            manifests::in_namespace(blueprint, pki::SERVICE_ACCOUNT),
            "Opaque",
            [(pki::SERVICE_ACCOUNT_KEY, key.0)],
        );
        let cached =
            self.caches.secrets.get(&ObjectKey::namespaced(&blueprint.namespace, pki::SERVICE_ACCOUNT));
        apply::ensure(&Api::namespaced(self.client(), &blueprint.namespace), cached, &copy).await?;
        Ok(())
    }

    /// Puts our finalizer on the cluster before the first thing is made for it, and the names it did not bring along.
    async fn claim(&self, key: &ObjectKey, cluster: HostedCluster) -> Result<HostedCluster, Error> {
        let spec = &cluster.spec;
        let claimed = cluster.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        if claimed && spec.cluster_id.is_some() && spec.infra_id.is_some() {
            return Ok(cluster);
        }
        let mut finalizers = cluster.finalizers().to_vec();
        if !claimed {
            finalizers.push(FINALIZER.to_owned());
        }
        let cluster_id = spec.cluster_id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let infra_id = spec.infra_id.clone().unwrap_or_else(|| made_up_infra_id(&key.name));
        let patch = json!({
            "metadata": { "finalizers": finalizers, "resourceVersion": cluster.metadata.resource_version },
            "spec": { "clusterID": cluster_id, "infraID": infra_id },
        });
        self.clusters(key)
            .patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(|error| Error::management("change", describe(key), error))
    }

    async fn delete(&self, key: &ObjectKey, cluster: HostedCluster) -> Result<Next, Error> {
        if !cluster.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            self.forget(key).await;
            return Ok(Next::Done);
        }
        let namespace = names::control_plane_namespace(key);
        let pools: Api<NodePool> = Api::namespaced(self.client(), key.namespace_or_empty());
        let namespaces: Api<Namespace> = Api::all(self.client());
        // Asked rather than remembered: letting go too early would orphan what a late cache does not show.
        let everything = ListParams::default();
        let (found_pools, found_namespace) =
            try_join!(pools.list(&everything), namespaces.get_opt(&namespace))
                .map_err(|error| Error::management("show what is left of", describe(key), error))?;
        let remaining: Vec<_> = found_pools
            .iter()
            .filter(|pool| pool.spec.cluster_name == key.name)
            .map(|pool| Remaining {
                name: pool.name_any(),
                going: pool.metadata.deletion_timestamp.is_some(),
            })
            .collect();
        let control_plane = found_namespace.map(|found| Remaining {
            name: namespace.clone(),
            going: found.metadata.deletion_timestamp.is_some(),
        });
        let step = deletion::next(&remaining, control_plane.as_ref());
        let waiting = match step {
            Step::DeletePools(names) => {
                for name in &names {
                    apply::ensure_deleted(&pools, name, &DeleteParams::default()).await?;
                }
                ("WaitingForNodePools", format!("node pools are being deleted: {}", names.join(", ")))
            }
            Step::AwaitPools(names) => {
                ("WaitingForNodePools", format!("node pools are being deleted: {}", names.join(", ")))
            }
            Step::DeleteNamespace => {
                self.forget(key).await;
                info!(cluster = %key, namespace, "deleting control plane");
                apply::ensure_deleted(&namespaces, &namespace, &DeleteParams::background()).await?;
                ("WaitingForNamespace", format!("namespace {namespace} is being deleted"))
            }
            Step::AwaitNamespace => {
                ("WaitingForNamespace", format!("namespace {namespace} is being deleted"))
            }
            Step::Release => {
                self.forget(key).await;
                return self.release(key, cluster).await;
            }
        };
        let mut status = cluster.status.clone().unwrap_or_default();
        let condition = Condition::new(
            "HostedClusterDestroyed",
            ConditionStatus::False,
            waiting.0,
            waiting.1,
            self.clock.now(),
        );
        set_condition(&mut status.conditions, condition.of_generation(cluster.metadata.generation));
        self.write_status(key, cluster, status).await?;
        Ok(Next::Done)
    }

    /// Nothing is left: the cluster may go.
    async fn release(&self, key: &ObjectKey, cluster: HostedCluster) -> Result<Next, Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client(), key.namespace_or_empty());
        apply::ensure_deleted(&secrets, &names::admin_kubeconfig(&key.name), &DeleteParams::default())
            .await?;
        let finalizers: Vec<_> =
            cluster.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
        let patch = json!({
            "metadata": { "finalizers": finalizers, "resourceVersion": cluster.metadata.resource_version },
        });
        match self.clusters(key).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => {}
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(Error::management("release", describe(key), error)),
        }
        info!(cluster = %key, "deleted");
        Ok(Next::Done)
    }

    fn observe(
        &self,
        cluster: &HostedCluster,
        blueprint: Result<&Blueprint, &Refusal>,
        seen: Seen,
        error: Option<String>,
    ) -> HostedClusterStatus {
        let Seen { infrastructure, kubeconfig, workload, answer } = seen;
        let observed = Observed {
            generation: cluster.metadata.generation,
            now: self.clock.now(),
            blueprint,
            publish_port: self.config.publish_address.port(),
            infrastructure,
            kubeconfig,
            workload,
            answer,
            error,
        };
        status::observe(&cluster.status.clone().unwrap_or_default(), &observed)
    }

    async fn write_status(
        &self,
        key: &ObjectKey,
        mut cluster: HostedCluster,
        status: HostedClusterStatus,
    ) -> Result<(), Error> {
        if cluster.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let was =
            cluster.status.as_ref().is_some_and(|status| is_condition_true(&status.conditions, "Available"));
        let is = is_condition_true(&status.conditions, "Available");
        cluster.status = Some(status);
        self.clusters(key)
            .replace_status(&key.name, &PostParams::default(), &cluster)
            .await
            .map_err(|error| Error::management("change the status of", describe(key), error))?;
        if is && !was {
            let correlation = names::annotation(&cluster.metadata, names::CORRELATION).unwrap_or_default();
            info!(cluster = %key, correlation, "available");
            self.metrics.became_available(&cluster, self.clock.now());
        } else if was && !is {
            info!(cluster = %key, "no longer available");
        }
        Ok(())
    }

    async fn forget(&self, key: &ObjectKey) {
        self.nodes.stop(key).await;
        self.published.forget(key);
    }

    fn clusters(&self, key: &ObjectKey) -> Api<HostedCluster> {
        Api::namespaced(self.client(), key.namespace_or_empty())
    }

    fn client(&self) -> Client {
        self.client.clone()
    }
}

// === impl Seen ===

impl Seen {
    /// Before anything was looked at.
    fn nothing() -> Self {
        let nothing = || Err("not looked at yet".to_owned());
        Self { infrastructure: nothing(), kubeconfig: false, workload: nothing(), answer: nothing() }
    }
}

/// Whether a pod of the wanted release runs; if none does, what is seen instead.
fn workload_runs(pods: &[Arc<Pod>], config_hash: &str) -> Result<(), String> {
    let mut seen = format!("no pod of StatefulSet {API_SERVER} yet");
    let of_component =
        |pod: &&Arc<Pod>| pod.labels().get(names::COMPONENT).is_some_and(|name| name == API_SERVER);
    for pod in pods.iter().filter(of_component) {
        if names::annotation(&pod.metadata, names::CONFIG_HASH) != Some(config_hash) {
            seen = format!("pod {} still runs the previous release or configuration", pod.name_any());
        } else if pod.metadata.deletion_timestamp.is_some() {
            seen = format!("pod {} is being deleted", pod.name_any());
        } else if is_pod_ready(pod) {
            return Ok(());
        } else {
            seen = format!("pod {} is not ready: {}", pod.name_any(), pod_state(pod));
        }
    }
    Err(seen)
}

/// The address of a Service inside the management cluster.
pub(crate) fn cluster_address(service: &Service) -> Option<IpAddr> {
    service.spec.as_ref()?.cluster_ip.as_deref()?.parse().ok()
}

/// `<name>-<five random characters>`, at most 27 characters long.
fn made_up_infra_id(name: &str) -> String {
    let mut base = String::new();
    for character in name.chars() {
        let character = if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' };
        if character != '-' || !base.ends_with('-') {
            base.push(character);
        }
    }
    base.truncate(21);
    let alphabet = b"bcdfghjklmnpqrstvwxz2456789";
    let mut generator = rand::rng();
    let suffix: String =
        (0..5).map(|_| char::from(alphabet[generator.random_range(0..alphabet.len())])).collect();
    format!("{}-{suffix}", base.trim_end_matches('-'))
}

fn describe(key: &ObjectKey) -> String {
    format!("HostedCluster {key}")
}
