use serde::{Deserialize, Serialize};

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
