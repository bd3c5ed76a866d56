use pilothouse_arm::ResourceId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Disk;
use crate::hub;
use crate::invalid::Problems;
use crate::schema::DiskEncryptionSetId;
use crate::v2024_06_10_preview::NodePoolCommon;
use crate::wire::Properties;

/// From this version on the release must be said. `D` is what a version says about the disk.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodePoolProperties<D> {
    #[serde(flatten)]
    common: NodePoolCommon<D>,
    /// What the nodes run.
    #[schemars(required)]
    version: Option<VersionProfile>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct VersionProfile {
    /// The release, such as 4.20.8.
    #[schemars(required, length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The channel it comes from.
    #[schemars(extend("default" = "stable"))]
    channel_group: Option<String>,
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
    /// Whether it outlives the machine.
    #[schemars(extend("default" = "Managed"))]
    disk_type: Option<hub::DiskType>,
}

impl<D: Disk> Properties for NodePoolProperties<D> {
    type Hub = hub::NodePool;

    fn read(self, existing: Option<&hub::NodePoolSpec>, problems: &mut Problems) -> hub::NodePoolSpec {
        let Self { common, version } = self;
        let VersionProfile { id, channel_group } = version.unwrap_or_default();
        hub::NodePoolSpec {
            version: hub::VersionProfile {
                // A replacement may leave it out and keeps it.
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

impl Disk for OsDisk {
    fn read(self, _: Option<&hub::OsDisk>) -> hub::OsDisk {
        let Self { size_gib, disk_storage_account_type, encryption_set_id, disk_type } = self;
        hub::OsDisk {
            size_gib: size_gib.unwrap_or(hub::OsDisk::SIZE_GIB),
            storage_account_type: disk_storage_account_type.unwrap_or_default(),
            disk_type: disk_type.unwrap_or_default(),
            encryption_set_id,
        }
    }

    fn write(disk: &hub::OsDisk) -> Self {
        let hub::OsDisk { size_gib, storage_account_type, disk_type, encryption_set_id } = disk.clone();
        Self {
            size_gib: Some(size_gib),
            disk_storage_account_type: Some(storage_account_type),
            encryption_set_id,
            disk_type: Some(disk_type),
        }
    }
}
