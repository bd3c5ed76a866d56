//! What an agent observed.

use pilothouse_crds::{
    Condition, FieldValue, FieldValueType, ManifestCondition, ManifestWorkStatus, find_condition,
    is_condition_true,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The status of a bundle. It is that of a `ManifestWork`, except that on the wire, and over REST, manifests are a flat
/// list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleStatus {
    /// Of the bundle as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Of each manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_status: Vec<ManifestCondition>,
}

// === impl BundleStatus ===

impl BundleStatus {
    /// The condition about `type_`, if there is one.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        find_condition(&self.conditions, type_)
    }

    /// Whether the condition about `type_` is true.
    pub fn is_true(&self, type_: &str) -> bool {
        is_condition_true(&self.conditions, type_)
    }

    /// Whether everything of the bundle is gone from the cluster.
    pub fn is_deleted(&self) -> bool {
        self.is_true("Deleted")
    }

    /// The manifest of this kind and name.
    pub fn manifest(&self, kind: &str, name: &str) -> Option<&ManifestCondition> {
        let is_it = |manifest: &&ManifestCondition| {
            manifest.resource_meta.kind == kind && manifest.resource_meta.name == name
        };
        self.resource_status.iter().find(is_it)
    }
}

impl From<ManifestWorkStatus> for BundleStatus {
    fn from(status: ManifestWorkStatus) -> Self {
        Self { conditions: status.conditions, resource_status: status.resource_status.manifests }
    }
}

/// What the feedback rule called `name` found on a manifest, as JSON: what a rule for a whole object found is that object
/// again. `None` if it found nothing, or nothing that can be read.
pub fn feedback(manifest: &ManifestCondition, name: &str) -> Option<Value> {
    let value = manifest.status_feedback.values.iter().find(|value| value.name == name)?;
    let FieldValue { type_, integer, string, boolean, json_raw } = &value.field_value;
    match type_ {
        FieldValueType::Integer => integer.map(Value::from),
        FieldValueType::String => string.as_deref().map(Value::from),
        FieldValueType::Boolean => boolean.map(Value::from),
        FieldValueType::JsonRaw => serde_json::from_str(json_raw.as_deref()?).ok(),
    }
}
