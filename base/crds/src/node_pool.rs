//! `NodePool`: nodes of a hosted cluster that are all alike.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Condition, ConditionStatus, Platform, Reference, Release, schema};

/// What a pool of nodes should be.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "hypershift.openshift.io",
    version = "v1beta1",
    kind = "NodePool",
    plural = "nodepools",
    shortname = "np",
    shortname = "nps",
    namespaced,
    status = "NodePoolStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Nodes of a hosted cluster that are all alike.",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".spec.clusterName", "description": "Cluster"}"#,
    printcolumn = r#"{"name": "Desired Nodes", "type": "integer", "jsonPath": ".spec.replicas", "description": "Desired Nodes"}"#,
    printcolumn = r#"{"name": "Current Nodes", "type": "integer", "jsonPath": ".status.replicas", "description": "Available Nodes"}"#,
    printcolumn = r#"{"name": "Autoscaling", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"AutoscalingEnabled\")].status", "description": "Autoscaling"}"#,
    printcolumn = r#"{"name": "Autorepair", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"AutorepairEnabled\")].status", "description": "Autorepair"}"#,
    printcolumn = r#"{"name": "Version", "type": "string", "jsonPath": ".status.version", "description": "Current version"}"#,
    printcolumn = r#"{"name": "UpdatingVersion", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"UpdatingVersion\")].status", "description": "UpdatingVersion in progress"}"#,
    printcolumn = r#"{"name": "UpdatingConfig", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"UpdatingConfig\")].status", "description": "UpdatingConfig in progress"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message", "description": "Message"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolSpec {
    /// The cluster the nodes belong to, in the same namespace.
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("clusterName")))]
    pub cluster_name: String,
    /// The release the nodes run.
    pub release: Release,
    /// Where the nodes come from; the same as the cluster's.
    pub platform: Platform,
    /// How many nodes there should be, unless `autoScaling` decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Between which bounds the number of nodes follows the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_scaling: Option<AutoScaling>,
    /// How nodes are replaced and repaired.
    #[serde(default)]
    pub management: NodePoolManagement,
    /// ConfigMaps with configuration of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<Reference>,
    /// Labels that a node gets when it is made.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_labels: BTreeMap<String, String>,
    /// Taints that a node gets when it is made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<NodeTaint>,
    /// Nothing is reconciled until this time, or for as long as it is `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<String>,
    /// The processors of the nodes.
    #[serde(default = "default_arch")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("arch")))]
    pub arch: String,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Bounds of the number of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AutoScaling {
    /// At least.
    #[schemars(range(min = 0))]
    pub min: i32,
    /// At most.
    #[schemars(range(min = 1))]
    pub max: i32,
}

/// How nodes are replaced and repaired.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolManagement {
    /// Whether a node is made anew or changed in place.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("management.upgradeType")))]
    pub upgrade_type: UpgradeType,
    /// Whether sick nodes are replaced.
    #[serde(default)]
    pub auto_repair: bool,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// How nodes change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeType {
    /// A new node takes the place of the old one.
    #[default]
    Replace,
    /// The node stays and changes.
    InPlace,
}

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeTaint {
    /// The key.
    pub key: String,
    /// The value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// What happens to pods that do not tolerate it.
    pub effect: String,
}

/// What was observed of a pool of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// How many nodes are ready.
    #[serde(default)]
    pub replicas: i32,
    /// The version all of them run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// What the nodes run, counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_info: Option<NodesInfo>,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<NodePoolCondition>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What the nodes of a pool run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodesInfo {
    /// One entry per pair of versions.
    #[serde(default)]
    pub node_versions: Vec<NodeVersion>,
}

/// How many nodes run this version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeVersion {
    /// The release's version.
    #[serde(default)]
    pub ocp_version: String,
    /// The version that the node's kubelet reports.
    #[serde(default)]
    pub kubelet_version: String,
    /// How many are ready.
    #[serde(default)]
    pub ready_node_count: i32,
    /// How many are not.
    #[serde(default)]
    pub unready_node_count: i32,
}

/// One aspect of a pool's state. Unlike other conditions it may have a severity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolCondition {
    /// What the condition is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// How bad it is when it does not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub severity: String,
    /// When `status` last changed.
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: Time,
    /// Why, in one word for programs.
    #[serde(default)]
    pub reason: String,
    /// Why, in a sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The generation of the object that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

// === impl NodePoolCondition ===

impl NodePoolCondition {
    /// A condition observed at `now`.
    pub fn new(
        type_: impl Into<String>,
        status: ConditionStatus,
        reason: impl Into<String>,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Self {
        let Condition { type_, status, observed_generation, last_transition_time, reason, message } =
            Condition::new(type_, status, reason, message, now);
        Self {
            type_,
            status,
            severity: String::new(),
            last_transition_time,
            reason,
            message,
            observed_generation,
        }
    }
}

fn default_arch() -> String {
    "amd64".to_owned()
}
