//! Where the nodes of a pool come from.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{PlatformType, quantity, schema};

/// Where nodes come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolPlatform {
    /// Which platform it is.
    #[serde(rename = "type")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("platform.type")))]
    pub type_: PlatformType,
    /// What KubeVirt needs to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubevirt: Option<KubeVirtNodePoolPlatform>,
    /// What Azure needs to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::azure_of_a_pool")]
    pub azure: Option<Value>,
    /// Which machines are taken of those that report themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub agent: Option<Value>,
    /// What another platform needs to know.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What KubeVirt needs to know of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeVirtNodePoolPlatform {
    /// What a machine boots from.
    #[serde(default)]
    pub root_volume: KubeVirtRootVolume,
    /// What a machine has.
    #[serde(default)]
    pub compute: KubeVirtCompute,
    /// Whether network interfaces have a queue for each core.
    #[serde(default)]
    pub network_interface_multiqueue: Multiqueue,
    /// Networks beside that of pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub additional_networks: Vec<AdditionalNetwork>,
    /// Whether a machine is in the network of pods.
    #[serde(default = "yes")]
    pub attach_default_network: bool,
    /// Which nodes the machines may run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Devices of the host that a machine is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub host_devices: Vec<HostDevice>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What a machine boots from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeVirtRootVolume {
    /// The image on it; the release's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_image: Option<DiskImage>,
    /// The kind of volume.
    #[serde(rename = "type", default = "persistent")]
    #[schemars(extend("enum" = ["Persistent"]))]
    pub type_: String,
    /// The volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent: Option<PersistentRootVolume>,
    /// Whether the image is kept for the next machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_strategy: Option<CacheStrategy>,
}

/// An image of a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskImage {
    /// A container image that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_disk_image: Option<String>,
}

/// A volume that outlives its pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersistentRootVolume {
    /// How large it is.
    #[serde(default = "default_volume_size", deserialize_with = "quantity::deserialize")]
    #[schemars(schema_with = "schema::quantity")]
    pub size: String,
    /// From which class; the management cluster's default if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// How it may be mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 10),
        inner(regex(pattern = "^(ReadWriteOnce|ReadWriteMany|ReadOnlyMany|ReadWriteOncePod)$"))
    )]
    pub access_modes: Vec<String>,
    /// Whether it is a device or holds files.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Filesystem", "Block"]))]
    pub volume_mode: Option<String>,
}

/// Whether an image is kept for the next machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheStrategy {
    /// Where.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["None", "PVC"]))]
    pub type_: String,
}

/// What a machine has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeVirtCompute {
    /// Its memory.
    #[serde(default = "default_memory", deserialize_with = "quantity::deserialize")]
    #[schemars(schema_with = "schema::quantity")]
    pub memory: String,
    /// Its cores.
    #[serde(default = "default_cores")]
    #[schemars(range(min = 1))]
    pub cores: i32,
    /// Whether it has them for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos_class: Option<QosClass>,
}

/// Whether a machine has its resources for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum QosClass {
    /// It shares them.
    #[default]
    Burstable,
    /// It has them for itself.
    Guaranteed,
}

/// Whether network interfaces have a queue for each core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Multiqueue {
    /// They have.
    #[default]
    Enable,
    /// They have one.
    Disable,
}

/// A network beside that of pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdditionalNetwork {
    /// Namespace and name of its definition, with a slash between them.
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
}

/// A device of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostDevice {
    /// What it is called.
    pub device_name: String,
    /// How many of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<i32>,
}

// === impl KubeVirtNodePoolPlatform ===

impl Default for KubeVirtNodePoolPlatform {
    fn default() -> Self {
        Self {
            root_volume: KubeVirtRootVolume::default(),
            compute: KubeVirtCompute::default(),
            network_interface_multiqueue: Multiqueue::default(),
            additional_networks: Vec::new(),
            attach_default_network: true,
            node_selector: BTreeMap::new(),
            host_devices: Vec::new(),
            other: BTreeMap::new(),
        }
    }
}

// === impl KubeVirtRootVolume ===

impl Default for KubeVirtRootVolume {
    fn default() -> Self {
        Self {
            disk_image: None,
            type_: persistent(),
            persistent: Some(PersistentRootVolume::default()),
            cache_strategy: None,
        }
    }
}

// === impl PersistentRootVolume ===

impl Default for PersistentRootVolume {
    fn default() -> Self {
        Self { size: default_volume_size(), storage_class: None, access_modes: Vec::new(), volume_mode: None }
    }
}

// === impl KubeVirtCompute ===

impl Default for KubeVirtCompute {
    fn default() -> Self {
        Self { memory: default_memory(), cores: default_cores(), qos_class: None }
    }
}

fn yes() -> bool {
    true
}

fn persistent() -> String {
    "Persistent".to_owned()
}

fn default_volume_size() -> String {
    "32Gi".to_owned()
}

fn default_memory() -> String {
    "8Gi".to_owned()
}

fn default_cores() -> i32 {
    2
}
