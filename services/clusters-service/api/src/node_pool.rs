use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ClusterId, NodePoolId, Version};

/// A node pool as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewNodePool {
    /// Its ARM name in lower case.
    pub id: NodePoolId,
    /// How many nodes.
    #[serde(default)]
    pub replicas: u32,
    /// Whether nodes that stay unhealthy are replaced.
    #[serde(default)]
    pub auto_repair: bool,
    /// What they run; the cluster's version unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Labels of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Taints of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Free-form; see [`crate::properties`] for the names with a meaning.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// What the cloud is asked for.
    #[serde(default)]
    pub azure_node_pool: AzureNodePool,
}

/// What of a node pool is to be another from now on. What is left out stays as it is.
///
/// A field that cannot be changed is refused rather than ignored, so that nobody takes silence for consent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodePoolUpdate {
    /// How many nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Labels of the nodes that are made from now on: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Taints of the nodes that are made from now on: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    /// Added to what is there; see [`crate::properties`] for the names with a meaning.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// A node pool as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePool {
    /// Always `NodePool`.
    pub kind: String,
    /// Its id within the cluster.
    pub id: NodePoolId,
    /// Its path.
    pub href: String,
    /// The cluster it belongs to.
    pub cluster_id: ClusterId,
    /// When it was asked for.
    pub creation_timestamp: Timestamp,
    /// How many nodes it should have.
    pub replicas: u32,
    /// Whether nodes that stay unhealthy are replaced.
    pub auto_repair: bool,
    /// What they run.
    pub version: Version,
    /// Labels of the nodes.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Taints of the nodes.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Free-form.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// What the cloud is asked for.
    pub azure_node_pool: AzureNodePool,
    /// Where it stands and why.
    pub status: NodePoolStatus,
}

/// A taint of every node in a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    #[serde(default)]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// The virtual machines of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AzureNodePool {
    /// The ARM resource's name.
    pub resource_name: String,
    /// The size of the machines.
    pub vm_size: String,
}

/// Where a node pool stands and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePoolStatus {
    /// The state, and since when.
    pub state: NodePoolState,
    /// How many of its nodes are ready.
    #[serde(default)]
    pub current_replicas: u32,
    /// What it is waiting for, or what happened last, in words.
    #[serde(default)]
    pub message: String,
}

/// A node pool's state, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePoolState {
    /// The state.
    pub value: NodePoolStateValue,
    /// When it last became another.
    pub last_updated_timestamp: Timestamp,
}

/// Which life a node pool is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NodePoolStateValue {
    /// Accepted and kept; nothing was done yet.
    #[default]
    Validating,
    /// It waits for its cluster.
    Pending,
    /// It was handed to its management cluster.
    Installing,
    /// Every node is ready.
    Ready,
    /// A change was accepted and kept; nothing was done about it yet.
    ValidatingUpdate,
    /// It is being changed.
    Updating,
    /// It failed; the message says why.
    Error,
    /// It is being deleted.
    Uninstalling,
    /// A state that this build does not know.
    #[serde(other)]
    Unknown,
}
