//! Where a hosted cluster's state is kept.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Reference;
use crate::{quantity, schema};

/// Where the cluster's state is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule(
        "has(self.managed) == (self.managementType == 'Managed')",
        "etcd.managed is set when managementType is Managed, and only then",
    ),
    schema::rule(
        "has(self.unmanaged) == (self.managementType == 'Unmanaged')",
        "etcd.unmanaged is set when managementType is Unmanaged, and only then",
    ),
]))]
pub struct Etcd {
    /// Who runs it.
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("etcd.managementType")))]
    pub management_type: EtcdManagementType,
    /// How it is run, if it is run for the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<ManagedEtcd>,
    /// Where it is, if the user brings it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmanaged: Option<UnmanagedEtcd>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Who runs the store of the cluster's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EtcdManagementType {
    /// It is made with the cluster.
    #[default]
    Managed,
    /// It is brought by the user.
    Unmanaged,
}

/// A store made with the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedEtcd {
    /// What it is kept on.
    #[serde(default)]
    pub storage: EtcdStorage,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A store that the user brings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnmanagedEtcd {
    /// Its URL.
    #[schemars(length(max = 255), regex(pattern = "^https://"))]
    pub endpoint: String,
    /// How it knows the cluster.
    pub tls: EtcdTls,
}

/// How a store knows its user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdTls {
    /// The Secret with keys `etcd-client-ca.crt`, `etcd-client.crt` and `etcd-client.key`.
    pub client_secret: Reference,
}

/// What the state is kept on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdStorage {
    /// The kind of storage.
    #[serde(rename = "type", default)]
    pub type_: EtcdStorageType,
    /// The volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume: Option<PersistentVolumeStorage>,
    /// What it starts from: the URL of a snapshot.
    #[serde(rename = "restoreSnapshotURL", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1),
        inner(length(max = 1024), regex(pattern = "^(https|s3)://")),
        extend("x-kubernetes-validations" = schema::immutable("etcd.managed.storage.restoreSnapshotURL"))
    )]
    pub restore_snapshot_url: Vec<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The kinds of storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EtcdStorageType {
    /// A persistent volume.
    #[default]
    PersistentVolume,
}

/// The volume that holds the state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersistentVolumeStorage {
    /// How large it is.
    #[serde(default = "default_size", deserialize_with = "quantity::deserialize")]
    #[schemars(
        schema_with = "schema::quantity",
        extend("x-kubernetes-validations" = schema::immutable("etcd.managed.storage.persistentVolume.size"))
    )]
    pub size: String,
    /// From which class; the cluster's default if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "x-kubernetes-validations" = schema::immutable("etcd.managed.storage.persistentVolume.storageClassName")
    ))]
    pub storage_class_name: Option<String>,
}

// === impl Etcd ===

impl Default for Etcd {
    fn default() -> Self {
        Self {
            management_type: EtcdManagementType::Managed,
            managed: Some(ManagedEtcd {
                storage: EtcdStorage {
                    type_: EtcdStorageType::PersistentVolume,
                    persistent_volume: Some(PersistentVolumeStorage::default()),
                    restore_snapshot_url: Vec::new(),
                    other: BTreeMap::new(),
                },
                other: BTreeMap::new(),
            }),
            unmanaged: None,
            other: BTreeMap::new(),
        }
    }
}

// === impl PersistentVolumeStorage ===

impl Default for PersistentVolumeStorage {
    fn default() -> Self {
        Self { size: default_size(), storage_class_name: None }
    }
}

fn default_size() -> String {
    "8Gi".to_owned()
}
