//! How the number of nodes follows the load, for all pools together.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How the number of nodes follows the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAutoscaling {
    /// Whether nodes also go.
    #[serde(default)]
    pub scaling: Scaling,
    /// When nodes go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScaleDown>,
    /// Labels that are not looked at when alike pools are kept alike in size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub balancing_ignored_labels: Vec<String>,
    /// How many nodes there are at most, in all pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_nodes_total: Option<i32>,
    /// How long a pod may take to end when its node goes, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_pod_grace_period: Option<i32>,
    /// How long a node may take to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"))]
    pub max_node_provision_time: Option<String>,
    /// How much free resources of alike pools may differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_free_difference_ratio_percent: Option<i32>,
    /// Pods of a lower priority do not make nodes come, nor keep them from going.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_priority_threshold: Option<i32>,
    /// How a pool is chosen for a new node, the most important first.
    #[serde(default = "default_expanders")]
    #[schemars(length(max = 3))]
    pub expanders: Vec<Expander>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Whether nodes also go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Scaling {
    /// They come and go.
    #[default]
    ScaleUpAndScaleDown,
    /// They only come.
    ScaleUpOnly,
}

/// When nodes go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleDown {
    /// How long after one came.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub delay_after_add_seconds: Option<i32>,
    /// How long after another went.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub delay_after_delete_seconds: Option<i32>,
    /// How long after it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub delay_after_failure_seconds: Option<i32>,
    /// How long it must have been of no use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub unneeded_duration_seconds: Option<i32>,
    /// Below which use of its resources it is of no use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub utilization_threshold_percent: Option<i32>,
}

/// How a pool is chosen for a new node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Expander {
    /// The one where least is left over.
    LeastWaste,
    /// The one of the highest priority.
    Priority,
    /// Any.
    Random,
}

// === impl ClusterAutoscaling ===

impl Default for ClusterAutoscaling {
    fn default() -> Self {
        Self {
            scaling: Scaling::default(),
            scale_down: None,
            balancing_ignored_labels: Vec::new(),
            max_nodes_total: None,
            max_pod_grace_period: None,
            max_node_provision_time: None,
            max_free_difference_ratio_percent: None,
            pod_priority_threshold: None,
            expanders: default_expanders(),
            other: BTreeMap::new(),
        }
    }
}

fn default_expanders() -> Vec<Expander> {
    vec![Expander::Priority, Expander::LeastWaste]
}
