//! How secrets are encrypted where they are stored.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Reference;
use crate::schema;

/// How secrets are encrypted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule("has(self.aescbc) == (self.type == 'aescbc')", "aescbc is set when type is aescbc, and only then"),
    schema::rule("has(self.kms) == (self.type == 'kms')", "kms is set when type is kms, and only then"),
]))]
pub struct SecretEncryption {
    /// With which kind of key.
    #[serde(rename = "type")]
    pub type_: SecretEncryptionType,
    /// With keys in Secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aescbc: Option<Aescbc>,
    /// With keys in a vault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kms: Option<Kms>,
}

/// The kinds of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SecretEncryptionType {
    /// Keys in Secrets.
    #[default]
    Aescbc,
    /// Keys in a vault.
    Kms,
}

/// Keys in Secrets: 32 bytes in key `key`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Aescbc {
    /// The one that encrypts.
    pub active_key: Reference,
    /// The one before it, which still decrypts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_key: Option<Reference>,
}

/// Keys in a vault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule("has(self.azure) == (self.provider == 'Azure')", "azure is set when provider is Azure, and only then"),
]))]
pub struct Kms {
    /// Whose vault it is.
    pub provider: KmsProvider,
    /// A vault of Azure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure: Option<AzureKms>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Who has vaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KmsProvider {
    /// IBM Cloud.
    #[serde(rename = "IBMCloud")]
    IbmCloud,
    /// Amazon Web Services.
    #[serde(rename = "AWS")]
    Aws,
    /// Microsoft Azure.
    Azure,
}

/// A vault of Azure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AzureKms {
    /// The key that encrypts.
    pub active_key: AzureKmsKey,
    /// The one before it, which still decrypts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_key: Option<AzureKmsKey>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A key in a vault of Azure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AzureKmsKey {
    /// The vault.
    pub key_vault_name: String,
    /// The key.
    pub key_name: String,
    /// Its version.
    pub key_version: String,
}
