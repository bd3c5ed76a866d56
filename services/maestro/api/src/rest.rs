//! What the REST API answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::status::BundleStatus;

/// A cluster that bundles can be sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumer {
    /// Its id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Always `Consumer`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Where it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub href: String,
    /// Its name, by which events are addressed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// When it was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}

/// A bundle with its status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceBundle {
    /// Its id.
    pub id: String,
    /// Always `ResourceBundle`.
    pub kind: String,
    /// Where it is.
    pub href: String,
    /// Its name: the id, unless the source gave one.
    pub name: String,
    /// The cluster it is for.
    pub consumer_name: String,
    /// Its version: one at first, one more for every update.
    pub version: i32,
    /// When it was made.
    pub created_at: String,
    /// When it, or its status, was last changed.
    pub updated_at: String,
    /// When its deletion was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<String>,
    /// The metadata the source sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// What is to be applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<Value>,
    /// What becomes of it on deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<Value>,
    /// Feedback rules and update strategies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<Value>,
    /// What the agent reported last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ResourceBundleStatus>,
}

/// What the agent reported last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceBundleStatus {
    /// The version it is about.
    #[serde(default, rename = "ObservedVersion")]
    pub observed_version: i32,
    /// Orders the agent's reports.
    #[serde(default, rename = "SequenceID")]
    pub sequence_id: String,
    /// What was observed.
    #[serde(flatten)]
    pub status: BundleStatus,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct List<T> {
    /// `ConsumerList` or `ResourceBundleList`.
    pub kind: String,
    /// Which page, from one.
    pub page: usize,
    /// How many are on it.
    pub size: usize,
    /// How many there are.
    pub total: usize,
    /// What is on it.
    #[serde(default = "Vec::new")]
    pub items: Vec<T>,
}

/// A refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Always `Error`.
    pub kind: String,
    /// The number.
    pub id: String,
    /// Where the number is explained.
    pub href: String,
    /// `maestro-` and the number.
    pub code: String,
    /// Why.
    pub reason: String,
    /// The request.
    #[serde(default)]
    pub operation_id: String,
}
