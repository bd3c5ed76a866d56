//! What is stored: one document per cluster, per node pool and per credential of an administrator.
//!
//! A document is what the API shows, and beside it what only the service itself needs to go on after a crash. Nothing
//! here is secret but the keys of credentials and those that clusters' secrets are encrypted with; pull secrets come from
//! files and pass through.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use pilothouse_clusters_service_api::{
    Cluster, ClusterState, ClusterUpdate, ExternalAuth, ExternalAuthId, InflightCheck, LeftBehind, NodePool,
    NodePoolStateValue, NodePoolUpdate, Secret, Version, properties,
};
use serde::{Deserialize, Serialize};

use crate::plan::plus;

mod check;
mod credential;
mod external_auth;
mod prepared;
mod shard;
mod upgrade_policy;

pub(crate) use credential::{
    CredentialRecord, LONGEST as LONGEST_CREDENTIAL, Revocation, SHORTEST as SHORTEST_CREDENTIAL, Signed,
};
pub(crate) use external_auth::ExternalAuthRecord;
pub(crate) use prepared::{Prepared, key_bytes, new_key};
pub(crate) use shard::{Health, ShardRecord, Usage};
pub(crate) use upgrade_policy::{Outcome, Target, UpgradePolicies};

/// The form of these documents.
const SCHEMA: u32 = 1;

/// A cluster as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClusterRecord {
    schema: u32,
    /// What the API shows.
    pub(crate) cluster: Cluster,
    /// The management cluster it was given to, for good.
    pub(crate) shard: String,
    /// What asked for it.
    pub(crate) origin: Origin,
    /// What asked for the latest change of it.
    #[serde(default)]
    pub(crate) update: Option<Origin>,
    /// Issuers of tokens that it is to trust.
    #[serde(default)]
    pub(crate) external_auths: Vec<ExternalAuthRecord>,
    /// Changes of its version.
    #[serde(default)]
    pub(crate) upgrade_policies: UpgradePolicies,
    /// What of the customer's was looked at.
    #[serde(default)]
    pub(crate) checks: Vec<InflightCheck>,
    /// That all credentials of administrators are to be worthless; one that is done stays until nothing of it is left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) revocations: Vec<Revocation>,
    /// Set once its deletion was asked for, and never taken back.
    pub(crate) deletion: Option<Deletion>,
    /// What may be left of it, once somebody decided not to wait for its management cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) left_behind: Option<LeftBehind>,
    /// Whether the cloud's resources are there.
    pub(crate) cloud_prepared: bool,
    /// What they are; nothing for a cluster that was prepared before there were vaults, which stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prepared: Option<Prepared>,
    /// Since when it is in its state; deadlines count from here.
    pub(crate) since: Timestamp,
}

/// A node pool as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodePoolRecord {
    schema: u32,
    /// What the API shows.
    pub(crate) node_pool: NodePool,
    /// What asked for it.
    pub(crate) origin: Origin,
    /// What asked for the latest change of it.
    #[serde(default)]
    pub(crate) update: Option<Origin>,
    /// Set once its deletion was asked for, and never taken back.
    pub(crate) deletion: Option<Deletion>,
    /// Changes of its version.
    #[serde(default)]
    pub(crate) upgrade_policies: UpgradePolicies,
}

/// What asked for a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The resource provider's operation: the same one again finds the same resource.
    pub(crate) operation_id: Option<String>,
    /// The id that follows the work.
    pub(crate) correlation_id: Option<String>,
}

/// That something is to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Deletion {
    pub(crate) requested_at: Timestamp,
}

impl Origin {
    /// Whether the same operation asked for the latest change.
    fn is_again(&self, former: Option<&Self>) -> bool {
        let known = former.and_then(|former| former.operation_id.as_ref());
        known.is_some() && known == self.operation_id.as_ref()
    }
}

/// Whether there is something in these properties that was not there before. Which operation asks, and what follows it, is
/// nothing by itself: then they stay as they were.
fn kept_properties(before: &BTreeMap<String, String>, after: &mut BTreeMap<String, String>) -> bool {
    let of_a_request = |name: &str| matches!(name, properties::OPERATION_ID | properties::CORRELATION_ID);
    let news = after.iter().any(|(name, value)| !of_a_request(name) && before.get(name) != Some(value));
    if !news {
        after.clone_from(before);
    }
    news
}

impl ClusterRecord {
    /// A cluster that was accepted. Where it goes is decided when it is written.
    pub(crate) fn new(cluster: Cluster, origin: Origin) -> Self {
        let since = cluster.creation_timestamp;
        Self {
            schema: SCHEMA,
            cluster,
            shard: String::new(),
            origin,
            update: None,
            external_auths: Vec::new(),
            upgrade_policies: UpgradePolicies::default(),
            checks: Vec::new(),
            revocations: Vec::new(),
            deletion: None,
            left_behind: None,
            cloud_prepared: false,
            prepared: None,
            since,
        }
    }

    /// Takes over a change that an operation asks for; false if there is nothing to change, or the operation asked before.
    ///
    /// A cluster that was never ready goes on being made, with other settings.
    pub(crate) fn change(&mut self, update: &ClusterUpdate, origin: &Origin, now: Timestamp) -> bool {
        if origin.is_again(self.update.as_ref()) {
            return false;
        }
        // A change of the key was refused before.
        let ClusterUpdate { node_drain_grace_period, api, registry_config, autoscaler, version, .. } =
            update.clone();
        let before = self.cluster.clone();
        let after = &mut self.cluster;
        after.node_drain_grace_period =
            node_drain_grace_period.or_else(|| before.node_drain_grace_period.clone());
        after.registry_config = registry_config.or_else(|| before.registry_config.clone());
        after.autoscaler = autoscaler.or_else(|| before.autoscaler.clone());
        after.version = version.unwrap_or_else(|| before.version.clone());
        let access = api.and_then(|api| api.cidr_block_access);
        after.api.cidr_block_access = access.or_else(|| before.api.cidr_block_access.clone());
        let is_the_same = before == *after;
        after.properties.extend(update.properties.clone());
        if before.state == ClusterState::Ready && is_the_same {
            // Nothing below reads what may be changed of these, so there is nothing to carry out.
            return kept_properties(&before.properties, &mut after.properties);
        }
        self.update = Some(origin.clone());
        if before.version.number() != self.cluster.version.number() {
            let target = Target::control_plane(&self.cluster);
            let version = self.cluster.version.number().unwrap_or_default();
            self.upgrade_policies.begun_directly(&target, version, origin, now);
        }
        match before.state {
            ClusterState::Validating | ClusterState::Pending | ClusterState::Installing => {}
            _ => {
                // Every change has the whole time, also one that follows another.
                self.since = now;
                self.enter(ClusterState::Updating, "the change was accepted", now);
            }
        }
        true
    }

    /// Takes over another version, whose time has come.
    pub(crate) fn begin_upgrade(&mut self, version: Version, origin: &Origin, now: Timestamp) {
        let description = format!("its upgrade to {} begins", version.number().unwrap_or_default());
        self.cluster.version = version;
        self.update = Some(origin.clone());
        self.enter(ClusterState::Updating, description, now);
    }

    /// What asked for it to be as it is now: the id to follow in its manifests.
    pub(crate) fn latest_origin(&self) -> &Origin {
        self.update.as_ref().unwrap_or(&self.origin)
    }

    /// Whether what it stores is encrypted with a key that only the customer has.
    pub(crate) fn has_a_key_of_the_customer(&self) -> bool {
        let encryption = self.cluster.azure.etcd_encryption.as_ref();
        encryption.is_some_and(|encryption| {
            encryption.data_encryption.customer_managed.as_ref().is_some_and(|key| key.kms.is_some())
        })
    }

    /// What its secrets are to be encrypted with where they are stored, if that was made here.
    pub(crate) fn encryption_key(&self) -> Option<&Secret> {
        self.prepared.as_ref()?.encryption_key.as_ref()
    }

    /// Whether its deletion does not wait for its management cluster.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.left_behind.is_some()
    }

    /// Whether all credentials of administrators are being revoked and that has begun lately, so that it is to be waited for:
    /// it may take so long.
    pub(crate) fn is_revoking_in_time(&self, limit: Duration, now: Timestamp) -> bool {
        let in_time = |revocation: &Revocation| now < plus(revocation.requested_at, limit);
        self.revocations.iter().any(|revocation| !revocation.done && in_time(revocation))
    }

    pub(crate) fn external_auth(&self, id: &ExternalAuthId) -> Option<&ExternalAuthRecord> {
        self.external_auths.iter().find(|record| record.external_auth.id == *id)
    }

    /// Enters a state, or stays in it, for a reason in words. An error's code and message go when its state does.
    pub(crate) fn enter(&mut self, state: ClusterState, description: impl Into<String>, now: Timestamp) {
        if self.cluster.state != state {
            self.since = now;
            if state != ClusterState::Error {
                self.cluster.status.provision_error_code = None;
                self.cluster.status.provision_error_message = None;
            }
        }
        self.cluster.state = state;
        self.cluster.status.state = state;
        self.cluster.status.description = description.into();
    }

    /// Fails for a reason. The deadline of the step it failed in stays what it was.
    pub(crate) fn fail(&mut self, code: &str, message: String) {
        self.cluster.state = ClusterState::Error;
        let status = &mut self.cluster.status;
        status.state = ClusterState::Error;
        status.description.clone_from(&message);
        status.provision_error_code = Some(code.to_owned());
        status.provision_error_message = Some(message);
    }

    /// Says something else about the state it is in.
    pub(crate) fn describe(&mut self, description: impl Into<String>) {
        self.cluster.status.description = description.into();
    }

    /// Whether a change from `before` is one that the controller has to act on, rather than its own.
    pub(crate) fn asks_for_work(&self, before: &Self) -> bool {
        let auths = |record: &Self| -> Vec<_> {
            let asked = |auth: &ExternalAuthRecord| {
                let ExternalAuth { id, issuer, clients, claim, .. } = auth.external_auth.clone();
                (id, issuer, clients, claim, auth.update.clone(), auth.deletion.is_some())
            };
            record.external_auths.iter().map(asked).collect()
        };
        // What is asked for itself, and not only who asks: a request need not say which operation it is of.
        let asked = |record: &'_ Self| {
            let Cluster { version, autoscaler, registry_config, node_drain_grace_period, api, .. } =
                record.cluster.clone();
            let wanted =
                (version, autoscaler, registry_config, node_drain_grace_period, api.cidr_block_access);
            let deletion = (record.deletion.clone(), record.is_abandoned());
            let revocations = record.revocations.iter().filter(|revocation| !revocation.done).count();
            (deletion, record.update.clone(), revocations, wanted)
        };
        // One that goes away does so because of the controller.
        let fewer = self.external_auths.len() < before.external_auths.len();
        // Only a request brings a cluster to this state; one that failed may be asked for again as it is.
        let entered = |record: &Self| record.cluster.state == ClusterState::Updating;
        asked(self) != asked(before)
            || self.upgrade_policies.requests() != before.upgrade_policies.requests()
            || (!fewer && auths(self) != auths(before))
            || (entered(self) && !entered(before))
    }
}

impl NodePoolRecord {
    pub(crate) fn new(node_pool: NodePool, origin: Origin) -> Self {
        let upgrade_policies = UpgradePolicies::default();
        Self { schema: SCHEMA, node_pool, origin, update: None, deletion: None, upgrade_policies }
    }

    /// Takes over a change that an operation asks for; false if there is nothing to change, or the operation asked before.
    ///
    /// A pool that was never ready goes on being made, with other numbers.
    pub(crate) fn change(&mut self, update: &NodePoolUpdate, origin: &Origin, now: Timestamp) -> bool {
        if origin.is_again(self.update.as_ref()) {
            return false;
        }
        let NodePoolUpdate {
            replicas,
            autoscaling,
            version,
            labels,
            taints,
            node_drain_grace_period,
            properties,
        } = update.clone();
        let before = self.node_pool.clone();
        let after = &mut self.node_pool;
        // One of the two decides, and whichever is named takes the place of the other.
        match (replicas, autoscaling) {
            (Some(_), _) => (after.replicas, after.autoscaling) = (replicas, None),
            (None, Some(_)) => (after.replicas, after.autoscaling) = (None, autoscaling),
            (None, None) => {}
        }
        after.version = version.unwrap_or_else(|| before.version.clone());
        after.node_drain_grace_period =
            node_drain_grace_period.unwrap_or_else(|| before.node_drain_grace_period.clone());
        after.labels = labels.unwrap_or_else(|| before.labels.clone());
        after.taints = taints.unwrap_or_else(|| before.taints.clone());
        let state = before.status.state.value;
        let is_the_same = before == *after;
        after.properties.extend(properties);
        if state == NodePoolStateValue::Ready && is_the_same {
            return kept_properties(&before.properties, &mut after.properties);
        }
        self.update = Some(origin.clone());
        if before.version.number() != self.node_pool.version.number() {
            let target = Target::node_pool(&self.node_pool);
            let version = self.node_pool.version.number().unwrap_or_default();
            self.upgrade_policies.begun_directly(&target, version, origin, now);
        }
        match state {
            NodePoolStateValue::Validating | NodePoolStateValue::Pending | NodePoolStateValue::Installing => {
            }
            _ => self.enter(NodePoolStateValue::ValidatingUpdate, "the change was accepted", now),
        }
        true
    }

    /// What asked for it to be as it is now: the id to follow in its manifests.
    pub(crate) fn latest_origin(&self) -> &Origin {
        self.update.as_ref().unwrap_or(&self.origin)
    }

    /// Takes over another version, whose time has come.
    pub(crate) fn begin_upgrade(&mut self, version: Version, origin: &Origin, now: Timestamp) {
        let message = format!("its upgrade to {} begins", version.number().unwrap_or_default());
        self.node_pool.version = version;
        self.update = Some(origin.clone());
        self.enter(NodePoolStateValue::ValidatingUpdate, message, now);
    }

    /// Enters a state, or stays in it, for a reason in words.
    pub(crate) fn enter(&mut self, value: NodePoolStateValue, message: impl Into<String>, now: Timestamp) {
        let status = &mut self.node_pool.status;
        if status.state.value != value {
            status.state.last_updated_timestamp = now;
        }
        status.state.value = value;
        status.message = message.into();
    }

    /// Whether a change from `before` is one that the controller has to act on, rather than its own.
    pub(crate) fn asks_for_work(&self, before: &Self) -> bool {
        let asked = |record: &Self| {
            let NodePool { replicas, autoscaling, version, labels, taints, .. } = record.node_pool.clone();
            let size = (replicas, autoscaling);
            let drain = record.node_pool.node_drain_grace_period.clone();
            (record.deletion.clone(), record.update.clone(), size, version, labels, taints, drain)
        };
        // Only a request brings a pool to this state; one that failed may be asked for again as it is.
        let entered =
            |record: &Self| record.node_pool.status.state.value == NodePoolStateValue::ValidatingUpdate;
        asked(self) != asked(before)
            || self.upgrade_policies.requests() != before.upgrade_policies.requests()
            || (entered(self) && !entered(before))
    }
}
