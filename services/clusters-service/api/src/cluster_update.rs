use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Autoscaler, CidrBlockAccess, GracePeriod, RegistryConfig, Version};

/// What of a cluster is to be another from now on. What is left out stays as it is.
///
/// A field that cannot be changed is refused rather than ignored, so that nobody takes silence for consent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterUpdate {
    /// How long a node may take to be emptied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_grace_period: Option<GracePeriod>,
    /// Who can reach the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<ApiUpdate>,
    /// Where images are fetched from: all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry_config: Option<RegistryConfig>,
    /// How node pools are scaled: all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<Autoscaler>,
    /// What is the customer's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure: Option<AzureUpdate>,
    /// What the control plane is to run. Ours: the original makes an upgrade policy by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Added to what is there; see [`crate::properties`] for the names with a meaning.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// What of an API server is to be another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApiUpdate {
    /// From where it can be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cidr_block_access: Option<CidrBlockAccess>,
}

/// What of the customer's is to be another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AzureUpdate {
    /// Another version of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_encryption: Option<EtcdEncryptionUpdate>,
}

/// Another version of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EtcdEncryptionUpdate {
    /// The encryption of the values.
    pub data_encryption: DataEncryptionUpdate,
}

/// Another version of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataEncryptionUpdate {
    /// The customer's key.
    pub customer_managed: CustomerManagedUpdate,
}

/// Another version of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CustomerManagedUpdate {
    /// Where the key is.
    pub kms: KmsUpdate,
}

/// Another version of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KmsUpdate {
    /// The key.
    pub active_key: ActiveKeyUpdate,
}

/// Another version of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ActiveKeyUpdate {
    /// The version.
    pub key_version: String,
}

impl AzureUpdate {
    /// Another version of the key that encrypts what the cluster stores.
    pub fn of_key_version(version: impl Into<String>) -> Self {
        let active_key = ActiveKeyUpdate { key_version: version.into() };
        let customer_managed = CustomerManagedUpdate { kms: KmsUpdate { active_key } };
        let data_encryption = DataEncryptionUpdate { customer_managed };
        Self { etcd_encryption: Some(EtcdEncryptionUpdate { data_encryption }) }
    }

    /// The version of the key that is asked for, if one is.
    pub fn key_version(&self) -> Option<&str> {
        let encryption = self.etcd_encryption.as_ref()?;
        Some(&encryption.data_encryption.customer_managed.kms.active_key.key_version)
    }
}

impl ClusterUpdate {
    /// Whether it asks for anything at all.
    pub fn is_empty(&self) -> bool {
        let Self { node_drain_grace_period, api, registry_config, autoscaler, azure, version, properties: _ } =
            self;
        node_drain_grace_period.is_none()
            && api.as_ref().is_none_or(|api| api.cidr_block_access.is_none())
            && registry_config.is_none()
            && autoscaler.is_none()
            && azure.as_ref().is_none_or(|azure| azure.etcd_encryption.is_none())
            && version.is_none()
    }
}
