//! `ManifestWork`: objects to be applied to a cluster, and what became of them.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

mod status;

pub use self::status::{
    FeedbackValue, FieldValue, FieldValueType, ManifestCondition, ManifestResourceMeta,
    ManifestResourceStatus, ManifestWorkStatus, StatusFeedback,
};

/// What is to be applied, and how.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "work.open-cluster-management.io",
    version = "v1",
    kind = "ManifestWork",
    plural = "manifestworks",
    namespaced,
    status = "ManifestWorkStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Objects to be applied to a cluster, and what became of them."
)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkSpec {
    /// The objects.
    #[serde(default)]
    pub workload: Workload,
    /// What happens to them when the work goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,
    /// What is special about some of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<ManifestConfig>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The objects to be applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Whole Kubernetes objects, applied in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::embedded_resources")]
    pub manifests: Vec<Value>,
}

/// What happens to the objects when the work goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOption {
    /// Whether they go too.
    #[serde(default)]
    pub propagation_policy: PropagationPolicy,
    /// Those that stay, for `SelectivelyOrphan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selectively_orphans: Option<SelectivelyOrphan>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Whether objects go with their work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PropagationPolicy {
    /// They do.
    #[default]
    Foreground,
    /// They stay.
    Orphan,
    /// Some of them stay.
    SelectivelyOrphan,
}

/// The objects that stay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectivelyOrphan {
    /// One rule per object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphaning_rules: Vec<OrphaningRule>,
}

/// An object that stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OrphaningRule {
    /// Its API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Its resource, in the plural.
    pub resource: String,
    /// Its name.
    pub name: String,
    /// Its namespace; empty for objects of the whole cluster.
    #[serde(default)]
    pub namespace: String,
}

/// What is special about an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestConfig {
    /// Which object.
    pub resource_identifier: ResourceIdentifier,
    /// What of its state is reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feedback_rules: Vec<FeedbackRule>,
    /// How it is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Which object of a work is meant; name and namespace may contain `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceIdentifier {
    /// Its API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Its resource, in the plural.
    pub resource: String,
    /// Its name.
    pub name: String,
    /// Its namespace; empty for objects of the whole cluster.
    #[serde(default)]
    pub namespace: String,
}

/// What of an object's state is reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackRule {
    /// Whether it is said below, or known for the kind.
    #[serde(rename = "type")]
    pub type_: FeedbackRuleType,
    /// The fields, for `JSONPaths`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_paths: Vec<JsonPath>,
}

/// Where it is said what is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FeedbackRuleType {
    /// The usual fields of the kind.
    WellKnownStatus,
    /// The fields listed.
    #[serde(rename = "JSONPaths")]
    JsonPaths,
}

/// A field that is reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JsonPath {
    /// What it is called in the report.
    pub name: String,
    /// The version of the resource to read it from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Where it is, in Kubernetes' dialect of JSONPath.
    pub path: String,
}

/// How an object is applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// Which way.
    #[serde(rename = "type", default)]
    pub type_: UpdateStrategyType,
    /// For `ServerSideApply`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApply>,
}

/// The ways to apply an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateStrategyType {
    /// Replaced when it differs.
    #[default]
    Update,
    /// Made, and then left alone.
    CreateOnly,
    /// Merged by the API server.
    ServerSideApply,
    /// Only read.
    ReadOnly,
}

/// How the API server merges an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSideApply {
    /// Whether fields that others own are taken over.
    #[serde(default)]
    pub force: bool,
    /// In whose name.
    #[serde(default = "default_field_manager")]
    #[schemars(regex(pattern = "^work-agent"))]
    pub field_manager: String,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

// === impl ServerSideApply ===

impl Default for ServerSideApply {
    fn default() -> Self {
        Self { force: false, field_manager: default_field_manager(), other: BTreeMap::new() }
    }
}

fn default_field_manager() -> String {
    "work-agent".to_owned()
}
