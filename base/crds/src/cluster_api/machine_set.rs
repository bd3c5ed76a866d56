//! `MachineSet`: so many machines that are all alike.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{MachineTemplate, MatchLabels};
use crate::NodePoolCondition;

/// What a set of machines should be.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "MachineSet",
    plural = "machinesets",
    shortname = "ms",
    category = "cluster-api",
    namespaced,
    status = "MachineSetStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "So many machines that are all alike.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".spec.clusterName", "description": "Cluster"}"#,
    printcolumn = r#"{"name": "Desired", "type": "integer", "jsonPath": ".spec.replicas", "description": "Machines wanted", "priority": 10}"#,
    printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas", "description": "Machines"}"#,
    printcolumn = r#"{"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas", "description": "Machines with a ready node"}"#,
    printcolumn = r#"{"name": "Available", "type": "integer", "jsonPath": ".status.availableReplicas", "description": "Machines whose node has been ready for long enough"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the set was made"}"#,
    printcolumn = r#"{"name": "Version", "type": "string", "jsonPath": ".spec.template.spec.version", "description": "Version of Kubernetes"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetSpec {
    /// The cluster the machines belong to.
    #[schemars(length(min = 1))]
    pub cluster_name: String,
    /// How many there should be.
    #[serde(default = "one")]
    pub replicas: i32,
    /// How long a node must have been ready, in seconds, to count as available.
    #[serde(default)]
    pub min_ready_seconds: i32,
    /// Which machine goes first: `Random`, `Newest` or `Oldest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Random", "Newest", "Oldest"]))]
    pub delete_policy: Option<String>,
    /// Which machines belong to the set.
    pub selector: MatchLabels,
    /// What machines are made after.
    pub template: MachineTemplate,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What was observed of a set of machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetStatus {
    /// The selector as a text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// How many machines there are.
    #[serde(default)]
    pub replicas: i32,
    /// How many have the labels of the template.
    #[serde(default)]
    pub fully_labeled_replicas: i32,
    /// How many have a ready node.
    #[serde(default)]
    pub ready_replicas: i32,
    /// How many have a node that has been ready for long enough.
    #[serde(default)]
    pub available_replicas: i32,
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

fn one() -> i32 {
    1
}
