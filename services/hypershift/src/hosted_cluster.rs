//! The controller of hosted clusters.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use pilothouse_crds::{HostedCluster, HostedClusterStatus, is_condition_true};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Chain, Clock, Next, Reconcile, TaskError};
use rand::Rng as _;
use serde_json::json;
use tokio::sync::OnceCell;
use tracing::{debug, info};

use crate::Config;
use crate::caches::Caches;
use crate::error::Error;
use crate::events::Events;
use crate::hosted_nodes::HostedNodes;
use crate::metrics::Metrics;
use crate::names::{self, FINALIZER};
use crate::pause::Pause;
use crate::published::Published;

mod access;
mod authentication;
mod blueprint;
mod break_glass;
mod construction;
mod deletion;
mod destruction;
mod duration;
mod encryption;
mod extras;
mod history;
mod hosted_control_plane;
mod keeping;
mod kubeconfigs;
mod manifests;
mod networks;
mod parts;
mod payload;
pub(crate) mod pki;
mod publishing;
mod range;
mod references;
mod refusal;
mod status;
#[cfg(test)]
mod tests;
mod upgrade;
mod upstream;
mod workload;

use blueprint::Blueprint;
use construction::Seen;
pub(crate) use construction::cluster_address;
pub use payload::Payload;
pub(crate) use range::Range;
use references::Sources;
pub(crate) use references::{Kind, concerns};
use refusal::Refusals;
use status::Observed;
use upgrade::Pool;
pub(crate) use upgrade::running as running_release;
pub(crate) use upstream::furniture::Furnished;

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
    pub(crate) events: Events,
    /// Which clusters of payload `upstream` are known to have what we add to them.
    pub(crate) furnished: Furnished,
    /// Set once the priority class of control planes is known to exist.
    pub(crate) priority_class: OnceCell<()>,
}

// === impl HostedClusters ===

impl Reconcile for HostedClusters {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.caches.clusters.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        match Box::pin(self.pass(key)).await {
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
            return Box::pin(self.delete(key, cluster)).await;
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
        let pools = self.pools(key);
        let drawn = Blueprint::draw(&cluster, &pools, &self.config);
        let drawn = drawn.and_then(|blueprint| match self.clash(&blueprint) {
            Some(refusal) => Err(refusal.into()),
            None => Ok(blueprint),
        });
        let blueprint = match drawn {
            Ok(blueprint) => blueprint,
            Err(refusals) => return self.refuse(key, cluster, &refusals).await,
        };
        let sources = Sources::read(&self.client, key, &blueprint.references).await?;
        let has_run = cluster.status.as_ref().is_some_and(history::has_run);
        if !has_run && !sources.refusals.is_empty() {
            return self.refuse(key, cluster, &sources.refusals).await;
        }
        Box::pin(self.build_and_observe(key, cluster, blueprint, sources)).await
    }

    /// Nothing is made, and the conditions say why.
    async fn refuse(
        &self,
        key: &ObjectKey,
        cluster: HostedCluster,
        refusals: &Refusals,
    ) -> Result<Next, Error> {
        debug!(cluster = %key, reasons = ?refusals, "refused");
        let status = self.observe(&cluster, Err(refusals), &Refusals::default(), Seen::nothing(), None);
        self.write_status(key, cluster, status).await?;
        Ok(Next::Done)
    }

    async fn build_and_observe(
        &self,
        key: &ObjectKey,
        cluster: HostedCluster,
        mut blueprint: Blueprint,
        mut sources: Sources,
    ) -> Result<Next, Error> {
        self.name_encryption_key(&blueprint, &mut sources).await?;
        let cluster = self.claim(key, cluster, &blueprint).await?;
        blueprint.signing_key = sources.signing_key_fingerprint();
        blueprint.signing_key_public = sources.signing_key_public();
        let mut complaints = blueprint.complaints.clone();
        complaints.extend(&sources.refusals);
        let mut seen = Seen::nothing();
        let built = Box::pin(self.build(&cluster, &mut blueprint, &sources, &mut seen)).await;
        if let Ok(Err(refusals)) = &built {
            return self.refuse(key, cluster, refusals).await;
        }
        complaints.extend(&seen.complaints);
        let ask_again = (seen.workload.is_ok() && seen.answer.is_err()) || seen.people_wait;
        let due = seen.due;
        let error = built.as_ref().err().map(|error| Chain(error).to_string());
        let status = self.observe(&cluster, Ok(&blueprint), &complaints, seen, error);
        let control_plane = self.write_control_plane(&blueprint, &status);
        futures::try_join!(control_plane, self.write_status(key, cluster.clone(), status.clone()))?;
        built?.ok();
        Ok(match due {
            _ if ask_again => Next::After(ASK_AGAIN),
            Some(due) => Next::After(self.clock.until(due)),
            None => Next::Done,
        })
    }

    /// Another cluster that has what this one would have: its namespace, or its name.
    fn clash(&self, blueprint: &Blueprint) -> Option<refusal::Refusal> {
        if let Some(refusal) = self.name_clash(blueprint) {
            return Some(refusal);
        }
        let namespace = self.caches.namespaces.get(&ObjectKey::cluster(&blueprint.namespace))?;
        construction::clash(&namespace, blueprint)
    }

    /// Another cluster that has the name which the owner of this one chose.
    fn name_clash(&self, blueprint: &Blueprint) -> Option<refusal::Refusal> {
        let name = blueprint.custom_name.as_ref()?;
        let routes = self.caches.routes.list();
        let other = routes.iter().find(|route| {
            route.spec.host == *name
                && ObjectKey::of(route.as_ref()).namespace_or_empty() != blueprint.namespace
        })?;
        let owner = names::cluster_of(&other.metadata).map(|owner| format!(" {owner}")).unwrap_or_default();
        Some(refusal::Refusal::invalid(format!(
            "spec.kubeAPIServerDNSName: `{name}` is the name of another HostedCluster{owner}; use another"
        )))
    }

    /// The node pools of a cluster, as far as upgrades go.
    fn pools(&self, key: &ObjectKey) -> Vec<Pool> {
        let pools = self.caches.pools.list_in(key.namespace_or_empty());
        let of_cluster = pools.iter().filter(|pool| pool.spec.cluster_name == key.name);
        of_cluster
            .map(|pool| Pool {
                name: pool.name_any(),
                version: pool.status.as_ref().map(|status| status.version.clone()).unwrap_or_default(),
            })
            .collect()
    }

    /// Puts our finalizer on the cluster before the first thing is made for it, and the names it did not bring along.
    async fn claim(
        &self,
        key: &ObjectKey,
        cluster: HostedCluster,
        blueprint: &Blueprint,
    ) -> Result<HostedCluster, Error> {
        let spec = &cluster.spec;
        let claimed = cluster.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        let unnamed = match &blueprint.encryption {
            encryption::Wanted::Unnamed { name } => Some(name),
            encryption::Wanted::Keys { .. }
            | encryption::Wanted::Elsewhere
            | encryption::Wanted::Own { .. } => None,
        };
        if claimed && spec.cluster_id.is_some() && spec.infra_id.is_some() && unnamed.is_none() {
            return Ok(cluster);
        }
        let mut finalizers = cluster.finalizers().to_vec();
        if !claimed {
            finalizers.push(FINALIZER.to_owned());
        }
        let cluster_id = spec.cluster_id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let infra_id = spec.infra_id.clone().unwrap_or_else(|| made_up_infra_id(&key.name));
        let mut patch = json!({
            "metadata": { "finalizers": finalizers, "resourceVersion": cluster.metadata.resource_version },
            "spec": { "clusterID": cluster_id, "infraID": infra_id },
        });
        if let Some(name) = unnamed {
            patch["spec"]["secretEncryption"] =
                json!({ "type": "aescbc", "aescbc": { "activeKey": { "name": name } } });
        }
        self.clusters(key)
            .patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(|error| Error::management("change", describe(key), error))
    }

    fn observe(
        &self,
        cluster: &HostedCluster,
        blueprint: Result<&Blueprint, &Refusals>,
        complaints: &Refusals,
        seen: Seen,
        error: Option<String>,
    ) -> HostedClusterStatus {
        let Seen {
            endpoint,
            infrastructure,
            kubeconfig,
            workload,
            current,
            answer,
            etcd,
            complete,
            encrypted,
            due: _,
            people_wait: _,
            complaints: _,
        } = seen;
        let now = self.clock.now();
        let pools = self.pools(&ObjectKey::of(cluster));
        let observed = Observed {
            generation: cluster.metadata.generation,
            now,
            blueprint,
            complaints,
            pause: Pause::read(cluster.spec.paused_until.as_deref(), now).complaint(),
            not_upgradeable: blueprint
                .ok()
                .and_then(|blueprint| upgrade::obstacle(&blueprint.control_plane_release, &pools)),
            endpoint,
            infrastructure,
            kubeconfig,
            workload,
            current,
            answer,
            etcd,
            complete,
            encrypted,
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
        let before = cluster.status.take();
        let holds = |status: &HostedClusterStatus| is_condition_true(&status.conditions, "Available");
        let (was, is) = (before.as_ref().is_some_and(holds), holds(&status));
        cluster.status = Some(status);
        self.clusters(key)
            .replace_status(&key.name, &PostParams::default(), &cluster)
            .await
            .map_err(|error| Error::management("change the status of", describe(key), error))?;
        self.metrics.changed(&cluster, before.as_ref(), self.clock.now());
        self.events.cluster_changed(&cluster, before.as_ref());
        if is && !was {
            let correlation = names::annotation(&cluster.metadata, names::CORRELATION).unwrap_or_default();
            info!(cluster = %key, correlation, "available");
        } else if was && !is {
            info!(cluster = %key, "no longer available");
        }
        Ok(())
    }

    async fn forget(&self, key: &ObjectKey) {
        self.nodes.stop(key).await;
        self.published.forget(key);
        self.furnished.forget(key);
    }

    fn clusters(&self, key: &ObjectKey) -> Api<HostedCluster> {
        Api::namespaced(self.client(), key.namespace_or_empty())
    }

    fn client(&self) -> Client {
        self.client.clone()
    }
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
