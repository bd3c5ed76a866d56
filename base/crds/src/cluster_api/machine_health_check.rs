//! `MachineHealthCheck`: when a machine counts as sick.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MatchLabels;
use crate::{NodePoolCondition, schema};

/// When machines count as sick.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "MachineHealthCheck",
    plural = "machinehealthchecks",
    shortname = "mhc",
    shortname = "mhcs",
    category = "cluster-api",
    namespaced,
    status = "MachineHealthCheckStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "When a machine counts as sick.",
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".spec.clusterName", "description": "Cluster"}"#,
    printcolumn = r#"{"name": "ExpectedMachines", "type": "integer", "jsonPath": ".status.expectedMachines", "description": "Machines looked at"}"#,
    printcolumn = r#"{"name": "MaxUnhealthy", "type": "string", "jsonPath": ".spec.maxUnhealthy", "description": "How many may be sick at once and still be replaced"}"#,
    printcolumn = r#"{"name": "CurrentHealthy", "type": "integer", "jsonPath": ".status.currentHealthy", "description": "Machines that are well"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the check was made"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckSpec {
    /// The cluster the machines belong to.
    #[schemars(length(min = 1))]
    pub cluster_name: String,
    /// Which machines are looked at.
    pub selector: MatchLabels,
    /// Conditions of a node that make its machine sick.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unhealthy_conditions: Vec<UnhealthyCondition>,
    /// How many may be sick at once and still be replaced: a number or a share in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number_or_text")]
    pub max_unhealthy: Option<IntOrString>,
    /// How long a machine may be without a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_startup_timeout: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A condition of a node that makes its machine sick.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnhealthyCondition {
    /// What the condition is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// With which status it makes sick.
    pub status: String,
    /// When it has lasted for so long.
    pub timeout: String,
}

/// What was observed of the machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckStatus {
    /// How many are looked at.
    #[serde(default)]
    pub expected_machines: i32,
    /// How many are well.
    #[serde(default)]
    pub current_healthy: i32,
    /// How many more may be replaced.
    #[serde(default)]
    pub remediations_allowed: i32,
    /// Their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<NodePoolCondition>,
    /// The generation of the object that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}
