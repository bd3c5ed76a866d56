use pilothouse_arm::ResourceId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hub;
use crate::invalid::Problems;
use crate::schema::DiskEncryptionSetId;
use crate::v2025_12_23_preview::{self, Disk};
use crate::wire::Properties;

pub(crate) type NodePoolCommon = v2025_12_23_preview::NodePoolProperties<OsDisk>;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodePoolProperties {
    #[serde(flatten)]
    common: NodePoolCommon,
    /// What was observed.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    status: Option<NodePoolStatus>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NodePoolStatus {
    /// What was observed.
    conditions: Vec<hub::Condition>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OsDisk {
    /// Its size.
    #[serde(rename = "sizeGiB")]
    #[schemars(range(min = 64, max = 4095), extend("default" = 64))]
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

impl Properties for NodePoolProperties {
    type Hub = hub::NodePool;

    fn read(self, existing: Option<&hub::NodePoolSpec>, problems: &mut Problems) -> hub::NodePoolSpec {
        let Self { common, status: _ } = self;
        common.read(existing, problems)
    }

    fn write(spec: &hub::NodePoolSpec, status: &hub::NodePoolStatus) -> Self {
        let conditions = status.conditions.clone();
        Self {
            common: NodePoolCommon::write(spec, status),
            status: (!conditions.is_empty()).then_some(NodePoolStatus { conditions }),
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
