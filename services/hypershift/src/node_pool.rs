//! The controller of node pools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use pilothouse_crds::{HostedCluster, NodePool, NodePoolStatus};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_pki::{AlternativeName, LeafRequest, Subject};
use pilothouse_runtime::{Chain, Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::Config;
use crate::apply;
use crate::caches::Caches;
use crate::error::{Error, is_missing};
use crate::hosted_cluster::{cluster_address, pki};
use crate::hosted_nodes::HostedNodes;
use crate::names::{self, API_SERVER, FINALIZER};
use crate::pause::Pause;
use crate::secrets::{self, Keyring, LEAF_LIFETIME};
use crate::versions::Release;

mod manifests;
mod observation;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use manifests::Template;
use observation::{desired, is_available, obstacle, release_of, versions, worker};
use plan::{Action, Worker};
use status::{Observed, Obstacle};

/// How long a pass waits for the first list of a hosted cluster's nodes.
const FIRST_LIST: Duration = Duration::from_secs(2);
/// How soon to look again when a conflict, or that list, came in between.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How long a node may be left behind by a hosted cluster that does not answer.
const NODE_PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct NodePools {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) config: Config,
    pub(crate) caches: Caches,
    pub(crate) nodes: Arc<HostedNodes>,
}

/// The hosted cluster's side of a pool.
struct Hosted {
    nodes: Informer<Node>,
    client: Client,
}

// === impl NodePools ===

impl Reconcile for NodePools {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.caches.pools.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        match self.pass(key).await {
            Err(error) if error.is_conflict() => Ok(Next::After(LOOK_AGAIN)),
            outcome => Ok(outcome?),
        }
    }
}

impl NodePools {
    async fn pass(&self, key: &ObjectKey) -> Result<Next, Error> {
        let found = self.pools(key).get_opt(&key.name).await;
        let Some(pool) = found.map_err(|error| Error::management("show", describe(key), error))? else {
            return Ok(Next::Done);
        };
        let cluster_key = ObjectKey::namespaced(key.namespace_or_empty(), &pool.spec.cluster_name);
        let cluster = self.caches.clusters.get(&cluster_key);
        if pool.metadata.deletion_timestamp.is_some() {
            return self.delete(key, &cluster_key, cluster.as_deref(), pool).await;
        }
        let now = self.clock.now();
        let pause = Pause::read(pool.spec.paused_until.as_deref(), now);
        let Some(cluster) = cluster else {
            let obstacle = Obstacle {
                condition: "Ready",
                reason: "NotFound",
                message: format!("HostedCluster {cluster_key} does not exist"),
            };
            let release = release_of(&pool);
            let observed = self.observed(&pool, &release, Some(obstacle), &[]);
            self.write_status(key, pool.clone(), &observed).await?;
            return Ok(Next::Done);
        };
        if let Some(message) = pause.message() {
            let release = release_of(&pool);
            let observed = Observed { paused: Some(message), ..self.observed(&pool, &release, None, &[]) };
            self.write_status(key, pool.clone(), &observed).await?;
            return Ok(match pause {
                Pause::Until(until) => Next::After(self.clock.until(until)),
                _ => Next::Done,
            });
        }
        if cluster.metadata.deletion_timestamp.is_some() {
            // Our own deletion is next.
            return Ok(Next::Done);
        }
        let pool = self.claim(key, pool, &cluster).await?;
        self.scale(key, &cluster_key, &cluster, pool).await
    }

    async fn scale(
        &self,
        key: &ObjectKey,
        cluster_key: &ObjectKey,
        cluster: &HostedCluster,
        pool: NodePool,
    ) -> Result<Next, Error> {
        let release = release_of(&pool);
        let obstacle = obstacle(&pool, cluster, release.as_ref().ok());
        let hosted = match self.nodes.of(cluster_key) {
            Some((nodes, client)) => {
                if timeout(FIRST_LIST, nodes.synced()).await.is_err() {
                    // Without it, every node would look as if it were missing.
                    return Ok(Next::After(LOOK_AGAIN));
                }
                Some(Hosted { nodes, client })
            }
            // The watch begins when the cluster is seen to be available, and its beginning wakes us.
            None if is_available(cluster) => return Ok(Next::Done),
            None => None,
        };
        let namespace = names::control_plane_namespace(cluster_key);
        let workers = self.workers(key, &namespace, hosted.as_ref());
        let acted = match (&release, &obstacle) {
            (Ok(release), None) => {
                let forgotten = self.forget_nodes(key, cluster_key, &workers, hosted.as_ref()).await;
                let announced = match forgotten {
                    Ok(()) => self.announce_ranges(key, &namespace, hosted.as_ref()).await,
                    failed => failed,
                };
                match announced {
                    Ok(()) => self.act(key, cluster_key, cluster, &pool, release, &workers).await,
                    failed => failed,
                }
            }
            _ => Ok(()),
        };
        let mut observed = self.observed(&pool, &release, obstacle, &workers);
        observed.error = acted.as_ref().err().map(|error| Chain(error).to_string());
        if let Some(hosted) = &hosted {
            observed.versions = versions(&self.own_nodes(key, hosted));
        }
        self.write_status(key, pool.clone(), &observed).await?;
        acted?;
        Ok(Next::Done)
    }

    /// Carries out the plan.
    async fn act(
        &self,
        key: &ObjectKey,
        cluster_key: &ObjectKey,
        cluster: &HostedCluster,
        pool: &NodePool,
        release: &Release,
        workers: &[Worker],
    ) -> Result<(), Error> {
        let namespace = names::control_plane_namespace(cluster_key);
        let keyring = Keyring {
            client: &self.client,
            cache: &self.caches.secrets,
            clock: &self.clock,
            namespace: &namespace,
        };
        // All three were there before the cluster was available; if the cache lacks one, it is about to come, and wakes us.
        let (Some(root), Some(clients), Some(api_address)) = (
            keyring.authority_if_made(pki::ROOT_AUTHORITY)?,
            keyring.authority_if_made(pki::CLIENT_AUTHORITY)?,
            self.caches
                .services
                .get(&ObjectKey::namespaced(&namespace, API_SERVER))
                .and_then(|service| cluster_address(&service)),
        ) else {
            return Ok(());
        };
        let service_range = cluster.spec.networking.service_network.first();
        let template = Template {
            pool,
            key,
            cluster: cluster_key,
            namespace: &namespace,
            release,
            image: &self.config.image,
            service_range: service_range.map(|entry| entry.cidr.as_str()).unwrap_or_default(),
            api_address,
            root: &root,
            clients: &clients,
        };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let actions = plan::plan(&key.name, desired(pool), &template.config_hash(), workers);
        for action in &actions {
            match action {
                Action::Create(worker) => {
                    info!(pool = %key, worker, "making a worker");
                    self.ensure_secret(&keyring, &template, worker).await?;
                    apply::ensure_exists(&pods, &template.pod(worker)).await?;
                }
                Action::Delete(worker) => {
                    info!(pool = %key, worker, "removing a worker");
                    apply::ensure_deleted(&pods, worker, &DeleteParams::default()).await?;
                }
            }
        }
        for worker in workers.iter().filter(|worker| !worker.going) {
            self.ensure_secret(&keyring, &template, &worker.name).await?;
        }
        self.drop_secrets(key, &namespace, workers, &actions).await
    }

    /// Makes sure of what a worker reads; its certificates are kept until they are due.
    async fn ensure_secret(
        &self,
        keyring: &Keyring<'_>,
        template: &Template<'_>,
        worker: &str,
    ) -> Result<(), Error> {
        let name = manifests::secret_name(worker);
        let failed = |source| Error::Certificate { name: name.clone(), source };
        let user = format!("system:node:{worker}");
        let client_request = pki::client_request(&user, ["system:nodes"]).map_err(failed)?;
        let serving_request = serving_request(worker, &user).map_err(failed)?;
        let cached = keyring.cached(&name);
        let kept = match &cached {
            Some(secret) => {
                let client =
                    secrets::read_identity(secret, manifests::CLIENT_CERTIFICATE, manifests::CLIENT_KEY)?;
                let serving = secrets::read_identity(secret, secrets::CERTIFICATE, secrets::KEY)?;
                let due = keyring
                    .renewal(&client, &client_request, template.clients)
                    .or_else(|| keyring.renewal(&serving, &serving_request, template.root));
                due.is_none().then_some((client, serving))
            }
            None => None,
        };
        let (client, serving) = match kept {
            Some(kept) => kept,
            None => (
                keyring.issue(&name, &client_request, template.clients)?,
                keyring.issue(&name, &serving_request, template.root)?,
            ),
        };
        let desired = template.secret(worker, &client, &serving)?;
        match cached {
            Some(cached) => apply::ensure(&keyring.api(), Some(cached), &desired).await?,
            None => apply::ensure_exists(&keyring.api(), &desired).await?,
        };
        Ok(())
    }

    /// Removes the Secrets of workers that are gone.
    async fn drop_secrets(
        &self,
        key: &ObjectKey,
        namespace: &str,
        workers: &[Worker],
        actions: &[Action],
    ) -> Result<(), Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        for secret in self.caches.secrets.list_in(namespace) {
            let name = secret.name_any();
            let wanted = workers.iter().any(|worker| manifests::secret_name(&worker.name) == name)
                || actions.iter().any(
                    |action| matches!(action, Action::Create(worker) if manifests::secret_name(worker) == name),
                );
            if !wanted && names::node_pool_of(&secret.metadata).as_ref() == Some(key) {
                apply::ensure_deleted(&secrets, &name, &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    /// Removes the nodes whose pods are gone; the scheduler would go on counting on them.
    async fn forget_nodes(
        &self,
        key: &ObjectKey,
        cluster: &ObjectKey,
        workers: &[Worker],
        hosted: Option<&Hosted>,
    ) -> Result<(), Error> {
        let Some(hosted) = hosted else { return Ok(()) };
        let api: Api<Node> = Api::all(hosted.client.clone());
        for node in self.own_nodes(key, hosted) {
            let name = node.name_any();
            if workers.iter().any(|worker| worker.name == name) {
                continue;
            }
            match api.delete(&name, &DeleteParams::default()).await {
                Ok(_) => info!(pool = %key, node = name, "node removed"),
                Err(error) if is_missing(&error) => {}
                Err(error) => {
                    return Err(Error::Hosted {
                        cluster: cluster.to_string(),
                        action: format!("delete node {name}"),
                        source: error.into(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Says on each worker which addresses its pods have: only its node knows, and the node around it has to route there.
    async fn announce_ranges(
        &self,
        key: &ObjectKey,
        namespace: &str,
        hosted: Option<&Hosted>,
    ) -> Result<(), Error> {
        let Some(hosted) = hosted else { return Ok(()) };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        for pod in self.caches.pods.list_in(namespace) {
            let name = pod.name_any();
            let node = hosted.nodes.get(&ObjectKey::cluster(&name));
            let range = node.and_then(|node| node.spec.as_ref().and_then(|spec| spec.pod_cidr.clone()));
            let is_own = names::node_pool_of(&pod.metadata).as_ref() == Some(key);
            let Some(range) = range.filter(|_| is_own && pod.metadata.deletion_timestamp.is_none()) else {
                continue;
            };
            if names::annotation(&pod.metadata, names::POD_RANGE) == Some(range.as_str()) {
                continue;
            }
            let patch =
                json!({ "metadata": { "annotations": { names::POD_RANGE: range }, "uid": pod.uid() } });
            match pods.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => {}
                Err(error) if is_missing(&error) => {}
                Err(error) => {
                    return Err(Error::management("annotate", format!("pod {namespace}/{name}"), error));
                }
            }
        }
        Ok(())
    }

    async fn delete(
        &self,
        key: &ObjectKey,
        cluster_key: &ObjectKey,
        cluster: Option<&HostedCluster>,
        pool: NodePool,
    ) -> Result<Next, Error> {
        if !pool.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(Next::Done);
        }
        let namespace = names::control_plane_namespace(cluster_key);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        // Asked rather than remembered: letting go too early would leave a worker behind.
        let selector = format!("{}={}", names::MANAGED_BY, names::OPERATOR);
        let found = pods.list(&ListParams::default().labels(&selector)).await;
        let found = found.map_err(|error| Error::management("list the workers of", describe(key), error))?;
        let own: Vec<_> =
            found.iter().filter(|pod| names::node_pool_of(&pod.metadata).as_ref() == Some(key)).collect();
        if !own.is_empty() {
            for pod in own.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
                apply::ensure_deleted(&pods, &pod.name_any(), &DeleteParams::default()).await?;
            }
            return Ok(Next::Done);
        }
        // A cluster that goes takes its nodes with it, and may no longer answer.
        let stays = cluster.is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_none());
        if stays && let Some((nodes, client)) = self.nodes.of(cluster_key) {
            let hosted = Hosted { nodes, client };
            let forgotten = self.forget_nodes(key, cluster_key, &[], Some(&hosted));
            match timeout(NODE_PATIENCE, forgotten).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn!(pool = %key, error = %Chain(&error), "nodes were left behind"),
                Err(_) => warn!(pool = %key, "nodes were left behind: the hosted cluster does not answer"),
            }
        }
        self.drop_secrets(key, &namespace, &[], &[]).await?;
        let finalizers: Vec<_> =
            pool.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
        let patch = json!({
            "metadata": { "finalizers": finalizers, "resourceVersion": pool.metadata.resource_version },
        });
        match self.pools(key).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => info!(pool = %key, "deleted"),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(Error::management("release", describe(key), error)),
        }
        Ok(Next::Done)
    }

    /// Puts our finalizer on the pool before the first worker is made, and makes it go with its cluster.
    async fn claim(
        &self,
        key: &ObjectKey,
        pool: NodePool,
        cluster: &HostedCluster,
    ) -> Result<NodePool, Error> {
        let owner = cluster.owner_ref(&());
        let owned = pool
            .owner_references()
            .iter()
            .any(|known| Some(&known.uid) == owner.as_ref().map(|owner| &owner.uid));
        let claimed = pool.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        if claimed && owned {
            return Ok(pool);
        }
        let mut finalizers = pool.finalizers().to_vec();
        if !claimed {
            finalizers.push(FINALIZER.to_owned());
        }
        let mut owners = pool.owner_references().to_vec();
        if !owned {
            owners.extend(owner);
        }
        let patch = json!({ "metadata": {
            "finalizers": finalizers,
            "ownerReferences": owners,
            "resourceVersion": pool.metadata.resource_version,
        } });
        self.pools(key)
            .patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(|error| Error::management("change", describe(key), error))
    }

    fn workers(&self, key: &ObjectKey, namespace: &str, hosted: Option<&Hosted>) -> Vec<Worker> {
        let pods = self.caches.pods.list_in(namespace).into_iter();
        let own = pods.filter(|pod| names::node_pool_of(&pod.metadata).as_ref() == Some(key));
        own.map(|pod| {
            worker(&pod, hosted.and_then(|hosted| hosted.nodes.get(&ObjectKey::cluster(pod.name_any()))))
        })
        .collect()
    }

    fn own_nodes(&self, key: &ObjectKey, hosted: &Hosted) -> Vec<Arc<Node>> {
        let of_pool = |node: &Arc<Node>| node.labels().get(names::NODE_POOL) == Some(&key.name);
        hosted.nodes.list().into_iter().filter(of_pool).collect()
    }

    fn observed<'a>(
        &self,
        pool: &NodePool,
        release: &'a Result<Release, Obstacle>,
        obstacle: Option<Obstacle>,
        workers: &'a [Worker],
    ) -> Observed<'a> {
        Observed {
            generation: pool.metadata.generation,
            now: self.clock.now(),
            config_hash: release.as_ref().map(manifests::config_hash).unwrap_or_default(),
            release: release.as_ref().map_err(Clone::clone),
            obstacle,
            desired: desired(pool),
            workers,
            versions: BTreeMap::new(),
            auto_scaling: pool.spec.auto_scaling.is_some(),
            auto_repair: pool.spec.management.auto_repair,
            paused: None,
            error: None,
        }
    }

    async fn write_status(
        &self,
        key: &ObjectKey,
        mut pool: NodePool,
        observed: &Observed<'_>,
    ) -> Result<(), Error> {
        let status: NodePoolStatus = status::observe(&pool.status.clone().unwrap_or_default(), observed);
        if pool.status.as_ref() == Some(&status) {
            return Ok(());
        }
        pool.status = Some(status);
        self.pools(key)
            .replace_status(&key.name, &PostParams::default(), &pool)
            .await
            .map_err(|error| Error::management("change the status of", describe(key), error))?;
        Ok(())
    }

    fn pools(&self, key: &ObjectKey) -> Api<NodePool> {
        Api::namespaced(self.client.clone(), key.namespace_or_empty())
    }
}

fn serving_request(worker: &str, user: &str) -> Result<LeafRequest, pilothouse_pki::Error> {
    let subject = Subject::try_new(user)?.with_organizations(["system:nodes"])?;
    let name = AlternativeName::dns(worker)?;
    Ok(LeafRequest::server(subject, [name]).with_lifetime(LEAF_LIFETIME))
}

fn describe(key: &ObjectKey) -> String {
    format!("NodePool {key}")
}
