use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ClusterId;

/// What may be left of a cluster whose management cluster was not waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftBehind {
    /// Always `LeftBehind`.
    pub kind: String,
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The management cluster it was on.
    pub provision_shard: String,
    /// The name of that at Maestro.
    pub management_cluster: String,
    /// When somebody decided not to wait.
    pub timestamp: Timestamp,
    /// Why that was possible.
    pub reason: String,
    /// What may be left, each if it was made and not removed before.
    pub items: Vec<LeftBehindObject>,
}

/// Something that may be left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftBehindObject {
    /// What it is: `ResourceBundle` at Maestro, `ResourceGroup` and `RecordSet` in the cloud, everything else on the
    /// management cluster.
    pub kind: String,
    /// Its namespace, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name; the id of a bundle, and of what is in the cloud.
    pub name: String,
}
