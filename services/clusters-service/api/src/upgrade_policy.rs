use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A change of version as it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NewUpgradePolicy {
    /// The bare number it leads to, one of the `available_upgrades` of the version that runs.
    pub version: String,
    /// When it is to begin; at once unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_run: Option<Timestamp>,
    /// Always `manual`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_type: Option<String>,
    /// See [`crate::properties`] for the names with a meaning.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// What of a change of version that has not begun is to be another. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpgradePolicyUpdate {
    /// Where it leads to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When it is to begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_run: Option<Timestamp>,
}

/// A change of version that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpgradePolicy {
    /// `ControlPlaneUpgradePolicy` or `NodePoolUpgradePolicy`.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// Its path.
    pub href: String,
    /// The cluster that is upgraded, or whose node pool is.
    pub cluster_id: String,
    /// The node pool, if it is one that is upgraded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_pool_id: Option<String>,
    /// Always `manual`.
    pub schedule_type: String,
    /// `ControlPlane` or `NodePool`.
    pub upgrade_type: String,
    /// When it is to begin.
    pub next_run: Timestamp,
    /// When it was asked for.
    pub creation_timestamp: Timestamp,
    /// When its state was last another.
    pub last_update_timestamp: Timestamp,
    /// The bare number it leads to.
    pub version: String,
    /// Where it stands.
    pub state: UpgradePolicyState,
}

/// Where an upgrade stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpgradePolicyState {
    /// The state.
    pub value: UpgradePolicyStateValue,
    /// What it is waiting for, in words.
    pub description: String,
}

/// Which life an upgrade is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UpgradePolicyStateValue {
    /// Accepted and kept.
    #[default]
    Pending,
    /// It begins at its time.
    Scheduled,
    /// It is being carried out.
    Started,
    /// It is done.
    Completed,
    /// It failed.
    Failed,
    /// It should have begun already.
    Delayed,
    /// It was taken back.
    Cancelled,
    /// A state that this build does not know.
    #[serde(other)]
    Unknown,
}
