use std::collections::BTreeMap;

use pilothouse_arm::ProvisioningState;
use serde::{Deserialize, Serialize};

use super::cluster::VersionProfile;
use crate::hub;
use crate::invalid::Problems;
use crate::version::Target;
use crate::wire::{self, Identity, Resource};

pub(crate) type NodePool = Resource<NodePoolProperties>;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodePoolProperties {
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    provisioning_state: Option<ProvisioningState>,
    version: Option<VersionProfile>,
    platform: Option<Platform>,
    replicas: Option<i32>,
    auto_repair: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_scaling: Option<Scale>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Vec<Label>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    taints: Option<Vec<Taint>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_drain_timeout_minutes: Option<i32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Platform {
    #[serde(skip_serializing_if = "Option::is_none")]
    subnet_id: Option<String>,
    vm_size: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    availability_zone: Option<String>,
    enable_encryption_at_host: Option<bool>,
    os_disk: Option<OsDisk>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OsDisk {
    #[serde(rename = "sizeGiB")]
    size_gib: Option<i32>,
    disk_storage_account_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encryption_set_id: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Scale {
    min: Option<i32>,
    max: Option<i32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Label {
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Taint {
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    effect: Option<String>,
}

// === impl NodePool ===

impl NodePool {
    pub(crate) fn read(self, target: &Target<'_, hub::NodePool>, problems: &mut Problems) -> hub::NodePool {
        self.check_name(problems, &target.id);
        let Self { id: _, name: _, kind: _, location: _, tags, system_data: _, identity, properties } = self;
        let NodePoolProperties {
            provisioning_state: _,
            version,
            platform,
            replicas,
            auto_repair,
            auto_scaling,
            labels,
            taints,
            node_drain_timeout_minutes,
        } = properties.unwrap_or_default();
        let existing = target.existing.map(|node_pool| &node_pool.spec);
        let version = version.unwrap_or_default().read();
        let spec = hub::NodePoolSpec {
            version: hub::VersionProfile {
                id: version.id.or_else(|| existing.and_then(|spec| spec.version.id.clone())),
                channel_group: version.channel_group,
            },
            platform: platform.unwrap_or_default().read(existing.map(|spec| &spec.platform), problems),
            replicas: replicas.unwrap_or(0),
            auto_repair: auto_repair.unwrap_or(true),
            auto_scaling: auto_scaling.map(|scale| scale.read(problems)),
            labels: read_labels(labels, problems),
            taints: read_taints(taints, problems),
            node_drain_timeout_minutes,
        };
        target.node_pool(tags, identity.map(|identity| identity.read(problems)), spec)
    }

    pub(crate) fn write(node_pool: &hub::NodePool) -> Self {
        let hub::NodePool { id, location, tags, system_data, identity, spec, status } = node_pool;
        let hub::NodePoolSpec {
            version,
            platform,
            replicas,
            auto_repair,
            auto_scaling,
            labels,
            taints,
            node_drain_timeout_minutes,
        } = spec;
        let hub::NodePoolStatus { provisioning_state, active_versions: _, conditions: _ } = status;
        Self {
            id: Some(id.clone()),
            name: Some(id.name().to_owned()),
            kind: Some(id.resource_type().to_string()),
            location: Some(location.clone()),
            tags: (!tags.is_empty()).then(|| tags.clone()),
            system_data: Some(system_data.clone()),
            identity: identity.as_ref().map(Identity::write),
            properties: Some(NodePoolProperties {
                provisioning_state: Some(*provisioning_state),
                version: Some(VersionProfile::write(version)),
                platform: Some(Platform::write(platform)),
                replicas: Some(*replicas),
                auto_repair: Some(*auto_repair),
                auto_scaling: auto_scaling.map(Scale::write),
                labels: write_labels(labels),
                taints: write_taints(taints),
                node_drain_timeout_minutes: *node_drain_timeout_minutes,
            }),
        }
    }
}

// === impl parts ===

impl Platform {
    fn read(
        self,
        existing: Option<&hub::NodePoolPlatform>,
        problems: &mut Problems,
    ) -> hub::NodePoolPlatform {
        let Self { subnet_id, vm_size, availability_zone, enable_encryption_at_host, os_disk } = self;
        let path = "properties.platform";
        let OsDisk { size_gib, disk_storage_account_type, encryption_set_id } = os_disk.unwrap_or_default();
        hub::NodePoolPlatform {
            subnet_id: wire::id(problems, &format!("{path}.subnetId"), subnet_id.as_deref())
                .or_else(|| existing.and_then(|platform| platform.subnet_id.clone())),
            vm_size: vm_size.unwrap_or_default(),
            availability_zone,
            encryption_at_host: enable_encryption_at_host.unwrap_or(false),
            os_disk: hub::OsDisk {
                size_gib: size_gib.unwrap_or(hub::OsDisk::SIZE_GIB),
                storage_account_type: wire::choice(
                    problems,
                    &format!("{path}.osDisk.diskStorageAccountType"),
                    disk_storage_account_type.as_deref(),
                ),
                disk_type: existing.map(|platform| platform.os_disk.disk_type).unwrap_or_default(),
                encryption_set_id: wire::id(
                    problems,
                    &format!("{path}.osDisk.encryptionSetId"),
                    encryption_set_id.as_deref(),
                ),
            },
        }
    }

    fn write(platform: &hub::NodePoolPlatform) -> Self {
        let hub::NodePoolPlatform { subnet_id, vm_size, availability_zone, encryption_at_host, os_disk } =
            platform.clone();
        let hub::OsDisk { size_gib, storage_account_type, disk_type: _, encryption_set_id } = os_disk;
        Self {
            subnet_id: subnet_id.map(String::from),
            vm_size: Some(vm_size),
            availability_zone,
            enable_encryption_at_host: Some(encryption_at_host),
            os_disk: Some(OsDisk {
                size_gib: Some(size_gib),
                disk_storage_account_type: Some(storage_account_type.as_str().to_owned()),
                encryption_set_id: encryption_set_id.map(String::from),
            }),
        }
    }
}

impl Scale {
    pub(crate) fn read(self, problems: &mut Problems) -> hub::Scale {
        let Self { min, max } = self;
        let mut number = |name: &str, value: Option<i32>| {
            value.unwrap_or_else(|| {
                problems.required(format!("properties.autoScaling.{name}"));
                0
            })
        };
        hub::Scale { min: number("min", min), max: number("max", max) }
    }

    pub(crate) fn write(scale: hub::Scale) -> Self {
        let hub::Scale { min, max } = scale;
        Self { min: Some(min), max: Some(max) }
    }
}

pub(crate) fn read_labels(labels: Option<Vec<Label>>, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (index, Label { key, value }) in labels.unwrap_or_default().into_iter().enumerate() {
        let target = format!("properties.labels[{index}].key");
        match key.filter(|key| !key.is_empty()) {
            None => problems.required(target),
            Some(key) => {
                if found.insert(key.clone(), value.unwrap_or_default()).is_some() {
                    problems.duplicate(target, key);
                }
            }
        }
    }
    found
}

pub(crate) fn write_labels(labels: &BTreeMap<String, String>) -> Option<Vec<Label>> {
    let label =
        |(key, value): (&String, &String)| Label { key: Some(key.clone()), value: Some(value.clone()) };
    (!labels.is_empty()).then(|| labels.iter().map(label).collect())
}

pub(crate) fn read_taints(taints: Option<Vec<Taint>>, problems: &mut Problems) -> Vec<hub::Taint> {
    let read = |(index, Taint { key, value, effect }): (usize, Taint)| {
        let path = format!("properties.taints[{index}]");
        if effect.is_none() {
            problems.required(format!("{path}.effect"));
        }
        hub::Taint {
            key: key.unwrap_or_default(),
            value,
            effect: wire::choice(problems, &format!("{path}.effect"), effect.as_deref()),
        }
    };
    taints.unwrap_or_default().into_iter().enumerate().map(read).collect()
}

pub(crate) fn write_taints(taints: &[hub::Taint]) -> Option<Vec<Taint>> {
    let taint = |taint: &hub::Taint| {
        let hub::Taint { key, value, effect } = taint.clone();
        Taint { key: Some(key), value, effect: Some(effect.as_str().to_owned()) }
    };
    (!taints.is_empty()).then(|| taints.iter().map(taint).collect())
}
