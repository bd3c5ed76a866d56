use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{ClusterId, GracePeriod, NodePoolId, Switch, Version};

/// A node pool as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewNodePool {
    /// Its ARM name in lower case.
    pub id: NodePoolId,
    /// How many nodes, unless that is left to scaling; none if neither is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// How many nodes there may be, by what the pods need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
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
    /// Which of the region's data centres the machines are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// The customer's subnet that the machines are in; the cluster's unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// How long a node may take to be emptied; as the cluster says unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_drain_grace_period: Option<GracePeriod>,
    /// Names of settings of the nodes' kernels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tuning_configs: Vec<String>,
    /// Names of settings of the nodes' kubelets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kubelet_configs: Vec<String>,
    /// How nodes are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub management_upgrade: Option<ManagementUpgrade>,
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
    /// How many nodes, and not left to scaling any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// How many nodes there may be, by what the pods need, instead of a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// What the nodes are to run. Ours: the original makes an upgrade policy by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// How long a node may take to be emptied. `Some(None)`, a `null` on the wire: as the cluster says.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    pub node_drain_grace_period: Option<Option<GracePeriod>>,
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
    /// How many nodes it should have, unless that is left to scaling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// How many nodes there may be, by what the pods need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
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
    /// Which of the region's data centres the machines are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// The customer's subnet that the machines are in; the cluster's unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// How long a node may take to be emptied; as the cluster says unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_drain_grace_period: Option<GracePeriod>,
    /// Names of settings of the nodes' kernels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tuning_configs: Vec<String>,
    /// Names of settings of the nodes' kubelets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kubelet_configs: Vec<String>,
    /// How nodes are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub management_upgrade: Option<ManagementUpgrade>,
    /// Free-form.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// What the cloud is asked for.
    pub azure_node_pool: AzureNodePool,
    /// Where it stands and why.
    pub status: NodePoolStatus,
}

/// Between how many and how many nodes a pool has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Autoscaling {
    /// Never fewer.
    pub min_replica: u32,
    /// Never more.
    pub max_replica: u32,
}

/// How nodes are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ManagementUpgrade {
    /// `Replace` or `InPlace`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub upgrade_type: Option<String>,
    /// How many may be missing meanwhile: a number, or a share such as `10%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<String>,
    /// How many more than wanted there may be meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<String>,
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
    /// Whether the host encrypts what it keeps for a machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_at_host: Option<EncryptionAtHost>,
    /// The disk that a machine starts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_disk: Option<OsDisk>,
}

/// Whether the host encrypts what it keeps for a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EncryptionAtHost {
    /// Whether it does.
    pub state: Switch,
}

/// The disk that a machine starts from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OsDisk {
    /// How large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_gibibytes: Option<u32>,
    /// How fast, such as `Premium_LRS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_account_type: Option<String>,
    /// Whether it outlives the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence: Option<Persistence>,
    /// Whose key encrypts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sse_encryption_set_resource_id: Option<String>,
}

/// Whether a disk outlives its machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Persistence {
    /// It does.
    #[default]
    Persistent,
    /// It does not.
    Ephemeral,
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
    /// A change waits for its turn.
    PendingUpdate,
    /// It is being changed.
    Updating,
    /// It failed and may recover by itself; the message says why.
    RecoverableError,
    /// It failed; the message says why.
    Error,
    /// It is being deleted.
    Uninstalling,
    /// A state that this build does not know.
    #[serde(other)]
    Unknown,
}

impl NewNodePool {
    /// One with nothing but its id.
    pub fn new(id: NodePoolId) -> Self {
        Self {
            id,
            replicas: None,
            autoscaling: None,
            auto_repair: false,
            version: None,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            availability_zone: None,
            subnet: None,
            node_drain_grace_period: None,
            tuning_configs: Vec::new(),
            kubelet_configs: Vec::new(),
            management_upgrade: None,
            properties: BTreeMap::new(),
            azure_node_pool: AzureNodePool::default(),
        }
    }
}

/// Tells `null`, which takes something back, from what was not said.
fn said<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}
