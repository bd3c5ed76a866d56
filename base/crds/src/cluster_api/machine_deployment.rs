//! `MachineDeployment`: machines that are all alike, and how they are replaced by others.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{MachineTemplate, MatchLabels};
use crate::{NodePoolCondition, RollingUpdate};

/// What a deployment of machines should be.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "MachineDeployment",
    plural = "machinedeployments",
    shortname = "md",
    category = "cluster-api",
    namespaced,
    status = "MachineDeploymentStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Machines that are all alike, and how they are replaced by others.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".spec.clusterName", "description": "Cluster"}"#,
    printcolumn = r#"{"name": "Desired", "type": "integer", "jsonPath": ".spec.replicas", "description": "Machines wanted", "priority": 10}"#,
    printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas", "description": "Machines"}"#,
    printcolumn = r#"{"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas", "description": "Machines with a ready node"}"#,
    printcolumn = r#"{"name": "Updated", "type": "integer", "jsonPath": ".status.updatedReplicas", "description": "Machines made after the template as it is now"}"#,
    printcolumn = r#"{"name": "Unavailable", "type": "integer", "jsonPath": ".status.unavailableReplicas", "description": "Machines that are missing"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "How far the deployment is"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the deployment was made"}"#,
    printcolumn = r#"{"name": "Version", "type": "string", "jsonPath": ".spec.template.spec.version", "description": "Version of Kubernetes"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeploymentSpec {
    /// The cluster the machines belong to.
    #[schemars(length(min = 1))]
    pub cluster_name: String,
    /// How many there should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Which machines belong to the deployment.
    pub selector: MatchLabels,
    /// What machines are made after.
    pub template: MachineTemplate,
    /// How they are replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<MachineDeploymentStrategy>,
    /// How long a node must have been ready, in seconds, to count as available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// Whether nothing is reconciled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// How machines are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeploymentStrategy {
    /// By whom.
    #[serde(rename = "type")]
    pub type_: crate::ReplaceStrategy,
    /// How many at a time, for `RollingUpdate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

/// What was observed of a deployment of machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeploymentStatus {
    /// The selector as a text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// How many machines there are.
    #[serde(default)]
    pub replicas: i32,
    /// How many were made after the template as it is now.
    #[serde(default)]
    pub updated_replicas: i32,
    /// How many have a ready node.
    #[serde(default)]
    pub ready_replicas: i32,
    /// How many have a node that has been ready for long enough.
    #[serde(default)]
    pub available_replicas: i32,
    /// How many are missing.
    #[serde(default)]
    pub unavailable_replicas: i32,
    /// How far it is, in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
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
