//! Changes of version: those that are to come, the one that is under way, and the last ones that are over.
//!
//! They are part of the record of what they change, so that beginning one and asking for another version are one write.

use jiff::Timestamp;
use pilothouse_clusters_service_api::{
    Cluster, NodePool, UpgradePolicy, UpgradePolicyState, UpgradePolicyStateValue,
};
use serde::{Deserialize, Serialize};

use super::Origin;

/// How many are kept; the oldest that are over go first.
const KEPT: usize = 10;

/// The changes of version of one thing, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UpgradePolicies {
    /// How many there ever were: the next one's id.
    made: u32,
    policies: Vec<UpgradePolicyRecord>,
}

/// One change of version as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct UpgradePolicyRecord {
    /// What the API shows.
    pub(crate) policy: UpgradePolicy,
    /// What asked for it.
    pub(crate) origin: Origin,
    /// Since when something has kept it from beginning.
    #[serde(default)]
    pub(crate) delayed_since: Option<Timestamp>,
}

/// What is to have another version.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    kind: &'static str,
    upgrade_type: &'static str,
    collection: String,
    cluster_id: String,
    node_pool_id: Option<String>,
}

/// How far what was asked for is.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    UnderWay(String),
    Done,
    Failed(String),
}

impl Target {
    pub(crate) fn control_plane(cluster: &Cluster) -> Self {
        Self {
            kind: "ControlPlaneUpgradePolicy",
            upgrade_type: "ControlPlane",
            collection: format!("{}/control_plane_upgrade_policies", cluster.href),
            cluster_id: cluster.id.to_string(),
            node_pool_id: None,
        }
    }

    pub(crate) fn node_pool(node_pool: &NodePool) -> Self {
        Self {
            kind: "NodePoolUpgradePolicy",
            upgrade_type: "NodePool",
            collection: format!("{}/upgrade_policies", node_pool.href),
            cluster_id: node_pool.cluster_id.to_string(),
            node_pool_id: Some(node_pool.id.to_string()),
        }
    }
}

impl UpgradePolicies {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &UpgradePolicyRecord> {
        self.policies.iter()
    }

    pub(crate) fn find(&self, id: &str) -> Option<&UpgradePolicyRecord> {
        self.policies.iter().find(|record| record.policy.id == id)
    }

    pub(crate) fn find_mut(&mut self, id: &str) -> Option<&mut UpgradePolicyRecord> {
        self.policies.iter_mut().find(|record| record.policy.id == id)
    }

    /// The one that the same operation asked for before.
    pub(crate) fn asked_by(&self, origin: &Origin) -> Option<&UpgradePolicyRecord> {
        let operation = origin.operation_id.as_ref()?;
        self.policies.iter().find(|record| record.origin.operation_id.as_ref() == Some(operation))
    }

    /// The one that is not over.
    pub(crate) fn active(&self) -> Option<&UpgradePolicyRecord> {
        self.policies.iter().find(|record| record.is_waiting() || record.is_under_way())
    }

    /// The one that has not begun.
    pub(crate) fn waiting(&self) -> Option<&UpgradePolicyRecord> {
        self.policies.iter().find(|record| record.is_waiting())
    }

    /// Adds one that begins at a moment.
    pub(crate) fn add(
        &mut self,
        target: &Target,
        version: &str,
        next_run: Timestamp,
        origin: &Origin,
        now: Timestamp,
    ) -> &mut UpgradePolicyRecord {
        self.made += 1;
        let id = self.made.to_string();
        let state = if next_run > now {
            let description = format!("it begins at {next_run}");
            UpgradePolicyState { value: UpgradePolicyStateValue::Scheduled, description }
        } else {
            let description = "accepted".to_owned();
            UpgradePolicyState { value: UpgradePolicyStateValue::Pending, description }
        };
        let policy = UpgradePolicy {
            kind: target.kind.to_owned(),
            href: format!("{}/{id}", target.collection),
            id,
            cluster_id: target.cluster_id.clone(),
            node_pool_id: target.node_pool_id.clone(),
            schedule_type: "manual".to_owned(),
            upgrade_type: target.upgrade_type.to_owned(),
            version: version.to_owned(),
            next_run,
            creation_timestamp: now,
            last_update_timestamp: now,
            state,
        };
        while self.policies.len() >= KEPT
            && let Some(oldest) = self.policies.iter().position(UpgradePolicyRecord::is_over)
        {
            self.policies.remove(oldest);
        }
        let index = self.policies.len();
        self.policies.push(UpgradePolicyRecord { policy, origin: origin.clone(), delayed_since: None });
        &mut self.policies[index]
    }

    /// A version was asked for directly: that is an upgrade that has begun, and what waited has no more to wait for.
    pub(crate) fn begun_directly(&mut self, target: &Target, version: &str, origin: &Origin, now: Timestamp) {
        for record in &mut self.policies {
            if record.is_waiting() || record.is_under_way() {
                let description = format!("version {version} was asked for instead");
                record.enter(UpgradePolicyStateValue::Cancelled, description, now);
            }
        }
        let record = self.add(target, version, now, origin, now);
        record.enter(UpgradePolicyStateValue::Started, "the change was accepted", now);
    }

    /// What is known of what it changes, said of the last one that has begun.
    pub(crate) fn judge(&mut self, running: &str, outcome: Outcome, now: Timestamp) {
        let begun = |record: &&mut UpgradePolicyRecord| {
            // One that failed may have got there all the same.
            record.is_under_way() || record.policy.state.value == UpgradePolicyStateValue::Failed
        };
        let Some(record) = self.policies.last_mut().filter(begun) else { return };
        if record.policy.version != running {
            return;
        }
        match outcome {
            Outcome::Done => {
                let description = format!("version {running} runs");
                record.enter(UpgradePolicyStateValue::Completed, description, now);
            }
            Outcome::Failed(why) => record.enter(UpgradePolicyStateValue::Failed, why, now),
            Outcome::UnderWay(waiting) => record.enter(UpgradePolicyStateValue::Started, waiting, now),
        }
    }

    pub(crate) fn remove(&mut self, id: &str) {
        self.policies.retain(|record| record.policy.id != id);
    }

    /// What was asked for, without what came of it.
    pub(crate) fn requests(&self) -> Vec<(&str, &str, Timestamp)> {
        let asked = |record: &'_ UpgradePolicyRecord| record.policy.next_run;
        let waiting = self.policies.iter().filter(|record| record.is_waiting());
        waiting
            .map(|record| (record.policy.id.as_str(), record.policy.version.as_str(), asked(record)))
            .collect()
    }
}

impl UpgradePolicyRecord {
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(
            self.policy.state.value,
            UpgradePolicyStateValue::Pending
                | UpgradePolicyStateValue::Scheduled
                | UpgradePolicyStateValue::Delayed
        )
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.policy.state.value == UpgradePolicyStateValue::Started
    }

    fn is_over(&self) -> bool {
        !self.is_waiting() && !self.is_under_way()
    }

    /// Enters a state, or stays in it, for a reason in words.
    pub(crate) fn enter(
        &mut self,
        value: UpgradePolicyStateValue,
        description: impl Into<String>,
        now: Timestamp,
    ) {
        if value == UpgradePolicyStateValue::Delayed {
            self.delayed_since.get_or_insert(now);
        }
        let state = UpgradePolicyState { value, description: description.into() };
        if self.policy.state != state {
            self.policy.state = state;
            self.policy.last_update_timestamp = now;
        }
    }
}
