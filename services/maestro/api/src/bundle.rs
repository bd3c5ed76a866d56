//! Payloads.

use pilothouse_crds::{DeleteOption, ManifestConfig};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::status::BundleStatus;

/// What a source wants in a cluster. The options are those of a `ManifestWork`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManifestBundle {
    /// Kubernetes objects.
    pub manifests: Vec<Value>,
    /// What becomes of them when the bundle is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,
    /// Per object: feedback rules and update strategy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<ManifestConfig>,
    /// On whose behalf to apply. Spelled so on the wire.
    #[serde(default, rename = "executer", skip_serializing_if = "Option::is_none")]
    pub executor: Option<Value>,
}

/// What a source is sent: the status, and the bundle it is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusPayload {
    /// The bundle, if the server knew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_bundle: Option<ManifestBundle>,
    /// What was observed.
    #[serde(flatten)]
    pub status: BundleStatus,
}

/// What an agent has, when it asks for what it missed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceVersionList {
    /// One for every bundle.
    #[serde(default)]
    pub resource_versions: Vec<ResourceVersion>,
}

/// A bundle and its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceVersion {
    /// The bundle.
    #[serde(rename = "resourceID")]
    pub resource_id: String,
    /// The version that is known.
    #[serde(default)]
    pub resource_version: i64,
}

/// What the asking side knows of statuses, when it asks for what it missed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusHashList {
    /// One for every bundle; none at all asks for everything.
    #[serde(default)]
    pub status_hashes: Vec<StatusHash>,
}

/// A bundle and the hash of its status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusHash {
    /// The bundle.
    #[serde(rename = "resourceID")]
    pub resource_id: String,
    /// The hash that is known.
    #[serde(default)]
    pub status_hash: String,
}
