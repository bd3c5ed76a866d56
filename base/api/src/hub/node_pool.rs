use std::collections::BTreeMap;

use pilothouse_arm::{ProvisioningState, ResourceId, SystemData};
use serde::{Deserialize, Serialize};

use super::choice::{DiskStorageAccountType, DiskType, Effect};
use super::cluster::VersionProfile;
use super::identity::Identity;
use super::status::Condition;

/// A set of like nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePool {
    /// Its name among all resources, below its cluster's, as it was spelled last.
    pub id: ResourceId,
    /// The region it is in.
    pub location: String,
    /// What its owner calls it by.
    pub tags: BTreeMap<String, String>,
    /// Who made and changed it.
    pub system_data: SystemData,
    /// What it may act under.
    pub identity: Option<Identity>,
    /// What its owner asked for.
    pub spec: NodePoolSpec,
    /// What was observed.
    pub status: NodePoolStatus,
}

/// What the owner of a node pool asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePoolSpec {
    /// What its nodes run; the cluster's version if absent.
    pub version: VersionProfile,
    /// What its nodes are.
    pub platform: NodePoolPlatform,
    /// How many nodes, unless it scales by itself.
    pub replicas: i32,
    /// Whether broken nodes are replaced.
    pub auto_repair: bool,
    /// Between which numbers it scales by itself.
    pub auto_scaling: Option<Scale>,
    /// On every node.
    pub labels: BTreeMap<String, String>,
    /// On every node.
    pub taints: Vec<Taint>,
    /// How long a node may take to be emptied; the cluster's time if absent.
    pub node_drain_timeout_minutes: Option<i32>,
}

/// What the nodes of a pool are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePoolPlatform {
    /// Where they are; the cluster's if absent.
    pub subnet_id: Option<ResourceId>,
    /// Their size.
    pub vm_size: String,
    /// Their zone.
    pub availability_zone: Option<String>,
    /// Whether their disks are encrypted by the host.
    pub encryption_at_host: bool,
    /// Their disk.
    pub os_disk: OsDisk,
}

/// A node's disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OsDisk {
    /// Its size.
    pub size_gib: i32,
    /// What it is made of.
    pub storage_account_type: DiskStorageAccountType,
    /// Whether it outlives the machine.
    pub disk_type: DiskType,
    /// With which keys it is encrypted.
    pub encryption_set_id: Option<ResourceId>,
}

/// Between which numbers a pool scales by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scale {
    /// At least.
    pub min: i32,
    /// At most.
    pub max: i32,
}

/// Keeps pods away that do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: Option<String>,
    /// What it does.
    pub effect: Effect,
}

/// What was observed of a node pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePoolStatus {
    /// What it is at.
    pub provisioning_state: ProvisioningState,
    /// The versions its nodes run.
    pub active_versions: Vec<String>,
    /// What was observed otherwise.
    pub conditions: Vec<Condition>,
}

// === impl ===

impl Default for NodePoolSpec {
    fn default() -> Self {
        Self {
            version: VersionProfile::default(),
            platform: NodePoolPlatform::default(),
            replicas: 0,
            auto_repair: true,
            auto_scaling: None,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            node_drain_timeout_minutes: None,
        }
    }
}

impl OsDisk {
    /// Unless another size is asked for.
    pub const SIZE_GIB: i32 = 64;
}

impl Default for OsDisk {
    fn default() -> Self {
        Self {
            size_gib: Self::SIZE_GIB,
            storage_account_type: DiskStorageAccountType::default(),
            disk_type: DiskType::default(),
            encryption_set_id: None,
        }
    }
}

impl Default for NodePoolStatus {
    fn default() -> Self {
        Self {
            provisioning_state: ProvisioningState::Accepted,
            active_versions: Vec::new(),
            conditions: Vec::new(),
        }
    }
}
