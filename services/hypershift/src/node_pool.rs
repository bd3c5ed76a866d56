//! The controller of node pools.
//!
//! A pass looks at what there is of a pool's workers, plans, and carries the plan out; then it writes down what it saw. What takes longer
//! than a pass, such as emptying a node, is found again by the next one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::try_join;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use pilothouse_crds::{HostedCluster, NodePool, NodePoolStatus, PlatformType};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Chain, Clock, Next, Reconcile, TaskError};
use tokio::time::timeout;

use crate::Config;
use crate::caches::Caches;
use crate::error::Error;
use crate::events::Events;
use crate::hosted_nodes::HostedNodes;
use crate::names;
use crate::pause::Pause;
use crate::versions::Release;

mod autoscaler;
mod bootstrap_token;
mod credentials;
mod drain;
mod fingerprint;
mod fleet;
mod in_place;
mod machine;
mod machine_facts;
mod machine_status;
mod node_config;
mod observation;
mod ownership;
mod plan;
mod removal;
mod repair;
mod rollout;
mod scaling;
mod server;
mod status;
mod template;
#[cfg(test)]
mod tests;
mod virtual_machine;
mod work;

use fleet::{Hosted, Member};
use machine_facts::MachineFacts;
use node_config::NodeConfig;
use observation::{desired, is_available, obstacle, patches, release_of, versions};
use plan::{Rollout, Wanted, Worker};
use removal::{DRAIN_AGAIN, Farewell, Removal, drain_limit};
use repair::{Diagnosis, HealthCheck};
pub(crate) use scaling::Idle;
use scaling::Scaled;
use status::{Join, Observed, Obstacle};
use template::Template;

/// How long a pass waits for the first list of a hosted cluster's nodes.
const FIRST_LIST: Duration = Duration::from_secs(2);
/// How soon to look again when a conflict, or that list, came in between.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub(crate) struct NodePools {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) config: Config,
    pub(crate) caches: Caches,
    pub(crate) nodes: Arc<HostedNodes>,
    pub(crate) events: Events,
    /// Which token each pool's cluster is known to have.
    pub(crate) introduced: Introduced,
    pub(crate) idle: Idle,
}

/// Tokens by pool.
#[derive(Debug, Default)]
pub(crate) struct Introduced(Mutex<HashMap<ObjectKey, String>>);

/// A pool and what it belongs to.
struct Scene<'a> {
    key: &'a ObjectKey,
    cluster_key: &'a ObjectKey,
    cluster: &'a HostedCluster,
    pool: &'a NodePool,
    namespace: String,
}

/// What came of carrying out a plan.
#[derive(Default)]
struct Outcome {
    user_data: Option<String>,
    join: Option<Join>,
    /// What keeps nodes from being empty, by worker.
    left: Vec<(String, String)>,
    next: Option<Duration>,
}

// === impl NodePools ===

impl Reconcile for NodePools {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.caches.pools.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        // It holds all requests that are under way at once.
        match Box::pin(self.pass(key)).await {
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
        let pause = Pause::read(pool.spec.paused_until.as_deref(), self.clock.now());
        let release = release_of(&pool);
        let Some(cluster) = cluster else {
            let obstacle = Obstacle {
                condition: "Ready",
                reason: "NotFound",
                message: format!("HostedCluster {cluster_key} does not exist"),
            };
            let observed = Observed { obstacle: Some(obstacle), ..self.observed(&pool, &release) };
            self.write_status(key, pool.clone(), &observed).await?;
            return Ok(Next::Done);
        };
        if let Some(message) = pause.message() {
            let observed = Observed { paused: Some(message), ..self.observed(&pool, &release) };
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
        let namespace = names::control_plane_namespace(&cluster_key);
        let scene = Scene { key, cluster_key: &cluster_key, cluster: &cluster, pool: &pool, namespace };
        self.look_after(&scene, &release).await
    }

    async fn look_after(
        &self,
        scene: &Scene<'_>,
        release: &Result<Release, Obstacle>,
    ) -> Result<Next, Error> {
        let Scene { key, cluster_key, cluster, pool, namespace } = scene;
        let beside: Api<ConfigMap> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
        let config = NodeConfig::load(pool, &beside).await?;
        let patches = patches(pool, cluster);
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
        let members = fleet::members(&self.caches, key, namespace, hosted.as_ref());
        let diagnosis = self.examine(scene, &members, hosted.as_ref());
        let workers: Vec<_> = members.iter().map(|member| member.worker(&diagnosis.sick)).collect();
        let made_of = match (release, &config) {
            (Ok(release), Ok(config)) => Some(Template::fingerprint(pool, release, config, &patches)),
            _ => None,
        };
        let mut observed = self.observed(pool, release);
        observed.obstacle =
            config.as_ref().err().cloned().or_else(|| obstacle(pool, cluster, release.as_ref().ok()));
        observed.workers = &workers;
        observed.facts = Some(MachineFacts::of(&members, pool, cluster));
        observed.made_of = made_of.as_ref();
        observed.too_many_sick = diagnosis.too_many;
        if let Some(hosted) = &hosted {
            observed.versions = versions(&fleet::nodes(key, hosted));
        }
        let acted = match (release, &config, &made_of, &hosted) {
            (Ok(release), Ok(config), Some(made_of), Some(hosted)) if observed.obstacle.is_none() => {
                // It was there before the cluster was available; if a cache lacks it, it is about to come.
                match self.server(scene) {
                    Some(server) => {
                        let service_range = cluster.spec.networking.service_network.first();
                        let template = Template {
                            pool,
                            key,
                            cluster: cluster_key,
                            infra_id: cluster.spec.infra_id.as_deref().unwrap_or(&cluster_key.name),
                            namespace,
                            release,
                            image: &self.config.image,
                            service_range: service_range.map(|entry| entry.cidr.as_str()).unwrap_or_default(),
                            server,
                            config,
                            patches,
                            made_of: made_of.clone(),
                            restricted: is_restricted(cluster),
                        };
                        self.act(&template, &members, &workers, hosted).await
                    }
                    None => Ok(Outcome { next: Some(LOOK_AGAIN), ..Outcome::default() }),
                }
            }
            _ => Ok(Outcome::default()),
        };
        let outcome = match acted {
            Ok(outcome) => outcome,
            Err(error) => {
                observed.error = Some(Chain(&error).to_string());
                self.write_status(key, (*pool).clone(), &observed).await?;
                return Err(error);
            }
        };
        observed.user_data = outcome.user_data;
        observed.join = outcome.join;
        let (pool, ()) = try_join!(
            self.write_status(key, (*pool).clone(), &observed),
            self.report_machines(namespace, &members, &outcome.left),
        )?;
        let mut next = [outcome.next, diagnosis.next].into_iter().flatten().min();
        // Last: that all who were asked for are there is said before there are to be more of them.
        if let Some(hosted) = hosted.as_ref().filter(|_| observed.obstacle.is_none()) {
            let scene = Scene { key, cluster_key, cluster, pool: &pool, namespace: namespace.clone() };
            match self.follow_load(&scene, &workers, hosted).await? {
                Scaled::Changed => return Ok(Next::Done),
                Scaled::Kept(then) => next = [next, then].into_iter().flatten().min(),
            }
        }
        Ok(next.map_or(Next::Done, Next::After))
    }

    /// Carries out the plan.
    async fn act(
        &self,
        template: &Template<'_>,
        members: &[Member],
        workers: &[Worker],
        hosted: &Hosted,
    ) -> Result<Outcome, Error> {
        self.dismiss_strangers(template.key, template.namespace).await?;
        let joining = workers.iter().any(|worker| worker.ready.is_none());
        let mut outcome = Outcome { user_data: Some(template.user_data_name()), ..Outcome::default() };
        if template.platform() == PlatformType::None {
            let token = self.ensure_user_data(template, hosted, false).await?;
            outcome.next = Some(self.clock.until(token.replaced_at()));
            outcome.join = Some(join(template));
            let kept = BTreeSet::from([template.user_data_name(), template.token_name()]);
            self.drop_secrets(template.key, template.namespace, &kept).await?;
            return Ok(outcome);
        }
        let replicas = desired(template.pool);
        let wanted = Wanted {
            pool: &template.key.name,
            replicas,
            made_of: &template.made_of,
            rollout: Rollout::of(template.pool, replicas),
        };
        let actions = plan::plan(&wanted, workers);
        let (token, created) = try_join!(
            self.ensure_user_data(template, hosted, joining),
            self.create_machines(template, &actions),
        )?;
        outcome.next = Some(self.clock.until(token.replaced_at()));
        let missing = members
            .iter()
            .filter(|member| !member.is_going() && member.virtual_machine.is_none() && member.pod.is_none());
        let missing: Vec<_> = missing.map(|member| member.machine.clone()).chain(created).collect();
        self.ensure_running(template, missing).await?;
        self.begin(template, &actions).await?;
        self.announce_ranges(template.namespace, members).await?;
        self.label_nodes(template, members, hosted).await?;
        self.approve_requests(template, members, hosted).await?;
        self.forget_strangers(template.key, template.cluster, template.namespace, members, hosted).await?;
        let farewell = Farewell {
            cluster: template.cluster,
            hosted: Some(hosted),
            drain_limit: drain_limit(template.pool),
            insistent: false,
        };
        for member in members {
            let step = if member.is_going() {
                self.remove(member, &farewell).await?
            } else if member.updating_since().is_some() {
                self.update(template, member, hosted, &farewell).await?
            } else {
                continue;
            };
            if let Removal::Draining(left) = step {
                outcome.left.push((member.name(), left));
                outcome.next = Some(DRAIN_AGAIN);
            }
        }
        let read = members.iter().filter_map(|member| member.machine.spec.bootstrap.data_secret_name.clone());
        let tokens = read.clone().map(|name| name.replacen("user-data-", "token-", 1));
        let current = [template.user_data_name(), template.token_name()];
        let kept = read.clone().chain(tokens).chain(current).collect();
        self.drop_secrets(template.key, template.namespace, &kept).await?;
        Ok(outcome)
    }

    /// Who is to be replaced because it has been unwell for too long.
    fn examine(&self, scene: &Scene<'_>, members: &[Member], hosted: Option<&Hosted>) -> Diagnosis {
        // Without a look at its nodes nobody can tell.
        if !scene.pool.spec.management.auto_repair || hosted.is_none() || !is_available(scene.cluster) {
            return Diagnosis::default();
        }
        let patients: Vec<_> = members.iter().filter_map(Member::patient).collect();
        HealthCheck::of(&scene.cluster.metadata).examine(&patients, self.clock.now())
    }

    /// What is known without a look at any worker.
    fn observed<'a>(&self, pool: &NodePool, release: &'a Result<Release, Obstacle>) -> Observed<'a> {
        Observed {
            generation: pool.metadata.generation,
            now: self.clock.now(),
            release: release.as_ref().map_err(Clone::clone),
            obstacle: None,
            desired: desired(pool),
            made_of: None,
            workers: &[],
            facts: None,
            user_data: None,
            join: None,
            versions: BTreeMap::new(),
            auto_scaling: pool.spec.auto_scaling.clone(),
            auto_repair: pool.spec.management.auto_repair,
            too_many_sick: 0,
            paused: None,
            error: None,
        }
    }

    /// Answers the pool as it is then.
    async fn write_status(
        &self,
        key: &ObjectKey,
        mut pool: NodePool,
        observed: &Observed<'_>,
    ) -> Result<NodePool, Error> {
        let status: NodePoolStatus = status::observe(&pool.status.clone().unwrap_or_default(), observed);
        if pool.status.as_ref() == Some(&status) {
            return Ok(pool);
        }
        let before = pool.status.replace(status);
        let written = self
            .pools(key)
            .replace_status(&key.name, &PostParams::default(), &pool)
            .await
            .map_err(|error| Error::management("change the status of", describe(key), error))?;
        self.events.pool_changed(&pool, before.as_ref());
        Ok(written)
    }

    fn pools(&self, key: &ObjectKey) -> Api<NodePool> {
        Api::namespaced(self.client.clone(), key.namespace_or_empty())
    }
}

// === impl Introduced ===

impl Introduced {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a person makes a node of a pool that makes none itself.
fn join(template: &Template<'_>) -> Join {
    let (namespace, secret) = (template.namespace, template.user_data_name());
    Join {
        command: format!(
            "kubectl get secret -n {namespace} {secret} -o jsonpath='{{.data.value}}' | base64 -d | sh -s NAME FOLDER"
        ),
    }
}

/// Whether the cluster's API server lets nodes have only some labels of their own choice: that of upstream does.
fn is_restricted(cluster: &HostedCluster) -> bool {
    cluster.status.as_ref().is_some_and(|status| status.payload.as_deref() == Some("upstream"))
}

fn ours() -> ListParams {
    ListParams::default().labels(&format!("{}={}", names::MANAGED_BY, names::OPERATOR))
}

fn describe(key: &ObjectKey) -> String {
    format!("NodePool {key}")
}
