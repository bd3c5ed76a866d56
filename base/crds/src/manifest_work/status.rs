//! What became of a work's objects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Condition;

/// What became of a work's objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkStatus {
    /// What holds of all of them together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What holds of each.
    #[serde(default)]
    pub resource_status: ManifestResourceStatus,
}

/// What holds of each object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestResourceStatus {
    /// In the order of the work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<ManifestCondition>,
}

/// What holds of one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestCondition {
    /// Which object.
    pub resource_meta: ManifestResourceMeta,
    /// What its rules reported.
    #[serde(default)]
    pub status_feedback: StatusFeedback,
    /// What holds of it.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// Which object of a work is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestResourceMeta {
    /// Its place in the work.
    #[serde(default)]
    pub ordinal: i32,
    /// Its API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// Its kind.
    #[serde(default)]
    pub kind: String,
    /// Its resource, in the plural.
    #[serde(default)]
    pub resource: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its namespace; empty for objects of the whole cluster.
    #[serde(default)]
    pub namespace: String,
}

/// What was reported of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusFeedback {
    /// One entry per field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<FeedbackValue>,
}

/// One field of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackValue {
    /// What the rule calls it.
    pub name: String,
    /// Its value.
    pub field_value: FieldValue,
}

/// A value: of the members beside `type` the one that it names is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldValue {
    /// Which member holds it.
    #[serde(rename = "type")]
    pub type_: FieldValueType,
    /// A whole number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub integer: Option<i64>,
    /// A text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// Yes or no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boolean: Option<bool>,
    /// Anything else, as JSON in a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_raw: Option<String>,
}

/// What kind of value it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FieldValueType {
    /// A whole number.
    Integer,
    /// A text.
    String,
    /// Yes or no.
    Boolean,
    /// Anything else.
    JsonRaw,
}

// === impl FieldValue ===

impl FieldValue {
    /// A whole number.
    pub fn integer(value: i64) -> Self {
        Self { integer: Some(value), ..Self::empty(FieldValueType::Integer) }
    }

    /// A text.
    pub fn string(value: impl Into<String>) -> Self {
        Self { string: Some(value.into()), ..Self::empty(FieldValueType::String) }
    }

    /// Yes or no.
    pub fn boolean(value: bool) -> Self {
        Self { boolean: Some(value), ..Self::empty(FieldValueType::Boolean) }
    }

    /// Anything, written as JSON.
    pub fn json_raw(text: impl Into<String>) -> Self {
        Self { json_raw: Some(text.into()), ..Self::empty(FieldValueType::JsonRaw) }
    }

    fn empty(type_: FieldValueType) -> Self {
        Self { type_, integer: None, string: None, boolean: None, json_raw: None }
    }
}
