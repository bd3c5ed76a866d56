//! Where a hosted cluster's nodes come from.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::KeyReference;
use crate::schema;

/// Where nodes come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Platform {
    /// Which platform it is.
    #[serde(rename = "type")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("platform.type")))]
    pub type_: PlatformType,
    /// What KubeVirt needs to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubevirt: Option<KubeVirtPlatform>,
    /// What Azure needs to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::azure_of_a_cluster")]
    pub azure: Option<Value>,
    /// Where machines report themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentPlatform>,
    /// What another platform needs to know.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The platforms there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlatformType {
    /// Amazon Web Services.
    #[serde(rename = "AWS")]
    Aws,
    /// Microsoft Azure.
    Azure,
    /// IBM Cloud.
    #[serde(rename = "IBMCloud")]
    IbmCloud,
    /// Virtual machines of KubeVirt.
    KubeVirt,
    /// Machines that report themselves.
    Agent,
    /// IBM Power Virtual Server.
    #[serde(rename = "PowerVS")]
    PowerVs,
    /// No platform.
    #[default]
    None,
    /// OpenStack.
    OpenStack,
    /// Google Cloud.
    #[serde(rename = "GCP")]
    Gcp,
}

/// What KubeVirt needs to know of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [schema::irremovable("generateID")]))]
pub struct KubeVirtPlatform {
    /// Whether the domain of applications is below the management cluster's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("platform.kubevirt.baseDomainPassthrough")))]
    pub base_domain_passthrough: Option<bool>,
    /// What names on the management cluster end in; made up if absent.
    #[serde(rename = "generateID", skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 11),
        extend("x-kubernetes-validations" = schema::immutable("platform.kubevirt.generateID"))
    )]
    pub generate_id: Option<String>,
    /// Another cluster that the machines run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("platform.kubevirt.credentials")))]
    pub credentials: Option<InfraCredentials>,
    /// How volumes of the cluster become volumes of the cluster its machines run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("platform.kubevirt.storageDriver")))]
    pub storage_driver: Option<StorageDriver>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Another cluster that machines run on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InfraCredentials {
    /// The Secret with a kubeconfig for it.
    pub infra_kube_config_secret: KeyReference,
    /// The namespace there.
    #[schemars(length(max = 63))]
    pub infra_namespace: String,
}

/// How volumes of a cluster become volumes of another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StorageDriver {
    /// Which way.
    #[serde(rename = "type", default)]
    pub type_: StorageDriverType,
    /// For `Manual`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual: Option<StorageMappings>,
}

/// The ways volumes become volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StorageDriverType {
    /// Not at all.
    None,
    /// By the default class.
    #[default]
    Default,
    /// By the classes listed.
    Manual,
}

/// Which classes of a cluster stand for which of another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageMappings {
    /// Classes of volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub storage_class_mapping: Vec<StorageClassMapping>,
    /// Classes of snapshots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub volume_snapshot_class_mapping: Vec<VolumeSnapshotClassMapping>,
}

/// A class of volumes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageClassMapping {
    /// Ties it to classes of snapshots.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub group: String,
    /// On the cluster that the machines run on.
    #[schemars(length(max = 253))]
    pub infra_storage_class_name: String,
    /// In the cluster.
    #[schemars(length(max = 253))]
    pub guest_storage_class_name: String,
}

/// A class of snapshots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotClassMapping {
    /// Ties it to classes of volumes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub group: String,
    /// On the cluster that the machines run on.
    #[schemars(length(max = 253))]
    pub infra_volume_snapshot_class_name: String,
    /// In the cluster.
    #[schemars(length(max = 253))]
    pub guest_volume_snapshot_class_name: String,
}

/// Where machines report themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentPlatform {
    /// The namespace of their reports.
    pub agent_namespace: String,
}
