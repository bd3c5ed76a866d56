//! What was observed of a pool of nodes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Condition, ConditionStatus, schema};

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
