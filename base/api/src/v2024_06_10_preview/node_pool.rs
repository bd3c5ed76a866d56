use std::collections::BTreeMap;

use pilothouse_arm::{ProvisioningState, ResourceId};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::hub;
use crate::invalid::Problems;
use crate::schema::{CREATED, DiskEncryptionSetId, SubnetId};
use crate::vm_size;
use crate::wire::Properties;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodePoolProperties {
    #[serde(flatten)]
    common: NodePoolCommon<OsDisk>,
    /// What the nodes run.
    version: Option<VersionProfile>,
}

/// What is the same in every version but for the disk, `D`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodePoolCommon<D> {
    /// What the node pool is at.
    #[serde(skip_deserializing)]
    provisioning_state: Option<ProvisioningState>,
    /// What the nodes are.
    #[schemars(required, extend("x-ms-mutability" = CREATED))]
    platform: Option<Platform<D>>,
    /// How many nodes there are, unless the pool scales by itself.
    #[schemars(range(min = 0))]
    replicas: Option<i32>,
    /// Whether broken nodes are replaced.
    #[schemars(extend("x-ms-mutability" = CREATED, "default" = true))]
    auto_repair: Option<bool>,
    /// Between which numbers the pool scales by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_scaling: Option<Scale>,
    /// On every node.
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Vec<Label>>,
    /// On every node.
    #[serde(skip_serializing_if = "Option::is_none")]
    taints: Option<Vec<Taint>>,
    /// How long a node may take to be emptied; the cluster's time if absent.
    #[schemars(range(min = 0, max = 10080))]
    #[serde(skip_serializing_if = "Option::is_none")]
    node_drain_timeout_minutes: Option<i32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct VersionProfile {
    /// The release, such as 4.20.8; chosen by the service if absent.
    #[schemars(extend("x-never-null" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The channel it comes from.
    #[schemars(extend("default" = "stable"))]
    channel_group: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Platform<D> {
    /// The subnet of the nodes; the cluster's if absent.
    #[schemars(with = "Option<SubnetId>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    subnet_id: Option<ResourceId>,
    /// The size of the machines.
    #[schemars(required, length(min = 1))]
    vm_size: Option<String>,
    /// The zone of the machines.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    availability_zone: Option<String>,
    /// Whether the host encrypts the machines' disks.
    #[schemars(extend("default" = false))]
    enable_encryption_at_host: Option<bool>,
    /// The machines' disk.
    os_disk: Option<D>,
}

/// What a version says about a node's disk.
pub(crate) trait Disk: Serialize + DeserializeOwned + JsonSchema + Default {
    /// The disk; what this version does not know is as it was.
    fn read(self, kept: Option<&hub::OsDisk>) -> hub::OsDisk;
    fn write(disk: &hub::OsDisk) -> Self;
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OsDisk {
    /// Its size.
    #[serde(rename = "sizeGiB")]
    #[schemars(range(min = 64), extend("default" = 64))]
    size_gib: Option<i32>,
    /// What it is made of.
    #[schemars(extend("default" = "Premium_LRS"))]
    disk_storage_account_type: Option<hub::DiskStorageAccountType>,
    /// What it is encrypted with; the platform's own key if absent.
    #[schemars(with = "Option<DiskEncryptionSetId>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    encryption_set_id: Option<ResourceId>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Scale {
    /// At least so many nodes.
    #[schemars(range(min = 0))]
    min: Option<i32>,
    /// At most so many nodes.
    #[schemars(range(min = 0))]
    max: Option<i32>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Label {
    /// Its name.
    #[schemars(required, length(min = 1))]
    key: Option<String>,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Taint {
    /// Its name.
    #[schemars(required, length(min = 1, max = 316))]
    key: Option<String>,
    /// Its value.
    #[schemars(length(max = 63))]
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// What it does.
    #[schemars(required)]
    effect: Option<hub::Effect>,
}

// === impl NodePoolProperties ===

impl Properties for NodePoolProperties {
    type Hub = hub::NodePool;

    fn read(self, existing: Option<&hub::NodePoolSpec>, problems: &mut Problems) -> hub::NodePoolSpec {
        let Self { common, version } = self;
        let VersionProfile { id, channel_group } = version.unwrap_or_default();
        hub::NodePoolSpec {
            version: hub::VersionProfile {
                id: id.or_else(|| existing?.version.id.clone()),
                channel_group: channel_group.unwrap_or_else(|| hub::VersionProfile::default().channel_group),
            },
            ..common.read(existing, problems)
        }
    }

    fn write(spec: &hub::NodePoolSpec, status: &hub::NodePoolStatus) -> Self {
        let hub::VersionProfile { id, channel_group } = spec.version.clone();
        Self {
            common: NodePoolCommon::write(spec, status),
            version: Some(VersionProfile { id, channel_group: Some(channel_group) }),
        }
    }
}

// === impl parts ===

impl<D: Disk> NodePoolCommon<D> {
    /// What is said in every version; everything else is as it was.
    pub(crate) fn read(
        self,
        existing: Option<&hub::NodePoolSpec>,
        problems: &mut Problems,
    ) -> hub::NodePoolSpec {
        let Self {
            provisioning_state: _,
            platform,
            replicas,
            auto_repair,
            auto_scaling,
            labels,
            taints,
            node_drain_timeout_minutes,
        } = self;
        hub::NodePoolSpec {
            platform: Platform::read(platform, existing.map(|spec| &spec.platform)),
            replicas: replicas.unwrap_or(0),
            auto_repair: auto_repair.unwrap_or(true),
            auto_scaling: auto_scaling
                .map(|Scale { min, max }| hub::Scale { min: min.unwrap_or(0), max: max.unwrap_or(0) }),
            labels: read_labels(labels, problems),
            taints: taints.unwrap_or_default().into_iter().map(Taint::read).collect(),
            node_drain_timeout_minutes,
            ..existing.cloned().unwrap_or_default()
        }
    }

    pub(crate) fn write(spec: &hub::NodePoolSpec, status: &hub::NodePoolStatus) -> Self {
        let hub::NodePoolSpec {
            // Beside this, by version.
            version: _,
            platform,
            replicas,
            auto_repair,
            auto_scaling,
            labels,
            taints,
            node_drain_timeout_minutes,
        } = spec.clone();
        // The rest is in the versions that have a status.
        let hub::NodePoolStatus { provisioning_state, active_versions: _, conditions: _ } = status;
        let label = |(key, value)| Label { key: Some(key), value: Some(value) };
        Self {
            provisioning_state: Some(*provisioning_state),
            platform: Some(Platform::write(platform)),
            replicas: Some(replicas),
            auto_repair: Some(auto_repair),
            auto_scaling: auto_scaling
                .map(|hub::Scale { min, max }| Scale { min: Some(min), max: Some(max) }),
            labels: (!labels.is_empty()).then(|| labels.into_iter().map(label).collect()),
            taints: (!taints.is_empty()).then(|| taints.into_iter().map(Taint::write).collect()),
            node_drain_timeout_minutes,
        }
    }
}

impl<D: Disk> Platform<D> {
    fn read(platform: Option<Self>, existing: Option<&hub::NodePoolPlatform>) -> hub::NodePoolPlatform {
        let Some(platform) = platform else { return hub::NodePoolPlatform::default() };
        let Self { subnet_id, vm_size, availability_zone, enable_encryption_at_host, os_disk } = platform;
        hub::NodePoolPlatform {
            subnet_id: subnet_id.or_else(|| existing?.subnet_id.clone()),
            vm_size: vm_size::canonical(vm_size.unwrap_or_default()),
            availability_zone,
            encryption_at_host: enable_encryption_at_host.unwrap_or(false),
            os_disk: os_disk.unwrap_or_default().read(existing.map(|platform| &platform.os_disk)),
        }
    }

    fn write(platform: hub::NodePoolPlatform) -> Self {
        let hub::NodePoolPlatform { subnet_id, vm_size, availability_zone, encryption_at_host, os_disk } =
            platform;
        Self {
            subnet_id,
            vm_size: Some(vm_size),
            availability_zone,
            enable_encryption_at_host: Some(encryption_at_host),
            os_disk: Some(D::write(&os_disk)),
        }
    }
}

impl Disk for OsDisk {
    fn read(self, kept: Option<&hub::OsDisk>) -> hub::OsDisk {
        let Self { size_gib, disk_storage_account_type, encryption_set_id } = self;
        hub::OsDisk {
            size_gib: size_gib.unwrap_or(hub::OsDisk::SIZE_GIB),
            storage_account_type: disk_storage_account_type.unwrap_or_default(),
            disk_type: kept.map(|disk| disk.disk_type).unwrap_or_default(),
            encryption_set_id,
        }
    }

    fn write(disk: &hub::OsDisk) -> Self {
        let hub::OsDisk { size_gib, storage_account_type, disk_type: _, encryption_set_id } = disk.clone();
        Self {
            size_gib: Some(size_gib),
            disk_storage_account_type: Some(storage_account_type),
            encryption_set_id,
        }
    }
}

fn read_labels(labels: Option<Vec<Label>>, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (index, Label { key, value }) in labels.unwrap_or_default().into_iter().enumerate() {
        if let Some(key) = key
            && found.insert(key.clone(), value.unwrap_or_default()).is_some()
        {
            problems.duplicate(format!("properties.labels[{index}].key"), &key);
        }
    }
    found
}

impl Taint {
    fn read(self) -> hub::Taint {
        let Self { key, value, effect } = self;
        hub::Taint { key: key.unwrap_or_default(), value, effect: effect.unwrap_or_default() }
    }

    fn write(taint: hub::Taint) -> Self {
        let hub::Taint { key, value, effect } = taint;
        Self { key: Some(key), value, effect: Some(effect) }
    }
}
