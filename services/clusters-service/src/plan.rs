//! What to do next about a cluster: a pure function of what is stored, what was observed, and the time.
//!
//! A plan is a list of actions and the records as they should read once those are done. The controller observes, plans,
//! executes, and writes; it starts over as long as there was something to do. So a crash anywhere is the ordinary path:
//! the next pass observes what is there and plans the rest.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use pilothouse_maestro_api::Work;
use secrecy::SecretString;

use crate::config::{Config, Deadlines, Shard};
use crate::manifests::{self, NotWritten, Settings, mark};
use crate::observed::Bundle;
use crate::record::{ClusterRecord, CredentialRecord, NodePoolRecord};

mod create;
mod credentials;
mod delete;
mod external_auths;
mod failure;
mod node_pools;
#[cfg(test)]
mod tests;
mod upgrades;

pub(crate) use failure::{Step, after_failed_check, after_failure};

/// Everything a plan is made from.
#[derive(Clone, Debug)]
pub(crate) struct World<'a> {
    pub(crate) cluster: &'a ClusterRecord,
    pub(crate) node_pools: &'a [NodePoolRecord],
    pub(crate) credentials: &'a [CredentialRecord],
    /// What Maestro has, by the name of the work. Names that were asked for and are not there are absent there.
    pub(crate) bundles: &'a BTreeMap<String, Bundle>,
    /// What the cluster has no more in the cloud, if that was looked at.
    pub(crate) missing: &'a [String],
    pub(crate) shard: &'a Shard,
    /// Why nothing can be expected of the management cluster now, if that is so.
    pub(crate) lost: Option<&'a str>,
    pub(crate) settings: &'a Settings,
    pub(crate) config: &'a Config,
    pub(crate) deadlines: &'a Deadlines,
    pub(crate) now: Timestamp,
}

/// What to do, and what to write afterwards.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    /// The cluster as it should read once the actions are done.
    pub(crate) cluster: ClusterRecord,
    /// Likewise, in the order of the world's.
    pub(crate) node_pools: Vec<NodePoolRecord>,
    /// Likewise.
    pub(crate) credentials: Vec<CredentialRecord>,
    /// When to look again if nothing happens before: a deadline.
    pub(crate) look_again: Option<Timestamp>,
    /// Whether something else is wanted now, so that there is more to plan at once.
    pub(crate) again: bool,
}

/// One idempotent thing to do. Logs are given its kind and a name, never manifests: there are secrets in them.
#[derive(Clone, PartialEq)]
pub(crate) enum Action {
    /// Make sure of the managed resource group and what is in it.
    PrepareCloud,
    /// The same for a cluster that had it all, and of which something was removed.
    RestoreCloud,
    /// Post a bundle that is not there.
    Create(Box<Work>),
    /// Replace a bundle that reads differently.
    Update(Box<Work>, i32),
    /// Ask for a bundle to be removed.
    DeleteBundle(String),
    /// Delete the managed resource group with everything in it.
    DeleteCloud,
    /// Forget a node pool, by its place in the world.
    RemoveNodePool(usize),
    /// Forget a credential of an administrator, by its place in the world.
    RemoveCredential(usize),
    /// Forget the cluster and give back what it reserved.
    RemoveCluster,
}

impl fmt::Debug for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrepareCloud => formatter.write_str("PrepareCloud"),
            Self::RestoreCloud => formatter.write_str("RestoreCloud"),
            Self::Create(work) => write!(formatter, "Create({})", work.name),
            Self::Update(work, version) => write!(formatter, "Update({}, {version})", work.name),
            Self::DeleteBundle(name) => write!(formatter, "DeleteBundle({name})"),
            Self::DeleteCloud => formatter.write_str("DeleteCloud"),
            Self::RemoveNodePool(index) => write!(formatter, "RemoveNodePool({index})"),
            Self::RemoveCredential(index) => write!(formatter, "RemoveCredential({index})"),
            Self::RemoveCluster => formatter.write_str("RemoveCluster"),
        }
    }
}

/// The bundles that may exist for a cluster: what has to be observed before planning.
pub(crate) fn names(
    cluster: &ClusterRecord,
    node_pools: &[NodePoolRecord],
    credentials: &[CredentialRecord],
) -> Vec<String> {
    let id = &cluster.cluster.id;
    // Nothing is posted before the cloud is prepared.
    if !cluster.cloud_prepared && cluster.deletion.is_none() {
        return Vec::new();
    }
    let own = [manifests::cluster_work_name(id), manifests::managed_cluster_work_name(id)];
    let pools = node_pools.iter().map(|record| manifests::node_pool_work_name(id, &record.node_pool.id));
    let requests = credentials.iter().filter(|record| !record.cleared);
    let requests = requests.map(|record| manifests::credential_work_name(id, &record.credential.id));
    let revocations = cluster.revocations.iter();
    let revocations = revocations.map(|revocation| manifests::revocation_work_name(id, &revocation.id));
    own.into_iter().chain(pools).chain(requests).chain(revocations).collect()
}

pub(crate) fn plan(world: &World<'_>) -> Result<Plan, NotWritten> {
    if world.cluster.deletion.is_some() { Ok(delete::plan(world)) } else { create::plan(world) }
}

impl Plan {
    fn unchanged(world: &World<'_>) -> Self {
        Self {
            actions: Vec::new(),
            cluster: world.cluster.clone(),
            node_pools: world.node_pools.to_vec(),
            credentials: world.credentials.to_vec(),
            look_again: None,
            again: false,
        }
    }

    /// Looks again at this moment, or earlier.
    fn look_again_at(&mut self, moment: Timestamp) {
        self.look_again = Some(self.look_again.map_or(moment, |other| other.min(moment)));
    }
}

impl World<'_> {
    /// Posts a work, unless Maestro has it just so. Answers what Maestro has, once it has that: what it knows of a bundle
    /// that is about to be another says nothing about the one that is wanted.
    fn ensure(&self, plan: &mut Plan, mut work: Work) -> Option<&Bundle> {
        let Some(bundle) = self.bundles.get(&work.name) else {
            plan.actions.push(Action::Create(Box::new(work)));
            return None;
        };
        if let Some(posted) = mark::read(&bundle.content) {
            mark::replace(&mut work.bundle, posted);
        }
        // It comes back once it is gone.
        if bundle.deleting || bundle.content == work.bundle {
            return Some(bundle);
        }
        mark::replace(&mut work.bundle, &bundle.version.saturating_add(1).to_string());
        plan.actions.push(Action::Update(Box::new(work), bundle.version));
        None
    }

    /// What is waited for, and, if the management cluster is lost, that. The number of the step stays in front.
    fn waiting(&self, waiting: String) -> String {
        let Some(lost) = self.lost else { return waiting };
        match waiting.split_once(": ").filter(|(step, _)| step.starts_with("step ")) {
            Some((step, rest)) => format!("{step}: {lost}; {rest}"),
            None => format!("{lost}; {waiting}"),
        }
    }

    /// Removes a bundle; true once it is gone, or nobody waits for that.
    fn removed(&self, plan: &mut Plan, name: &str) -> bool {
        match self.bundles.get(name) {
            None => true,
            Some(bundle) => {
                if !bundle.deleting {
                    plan.actions.push(Action::DeleteBundle(name.to_owned()));
                }
                self.cluster.is_abandoned()
            }
        }
    }
}

pub(crate) fn plus(moment: Timestamp, duration: Duration) -> Timestamp {
    let duration = jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX);
    moment.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

impl Settings {
    pub(crate) fn of(config: &Config, pull_secret: SecretString) -> Self {
        Self {
            environment: config.environment.clone(),
            release_repository: config.release_repository.clone(),
            pull_secret,
            ssh_public_key: config.ssh_public_key.clone(),
        }
    }
}
