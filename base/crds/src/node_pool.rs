//! `NodePool`: nodes of a hosted cluster that are all alike.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Reference, Release, schema};

mod management;
mod platform;
mod status;

pub use self::management::{
    InPlaceUpgrade, NodePoolManagement, ReplaceStrategy, ReplaceUpgrade, RollingUpdate, UpgradeType,
};
pub use self::platform::{
    AdditionalNetwork, CacheStrategy, DiskImage, HostDevice, KubeVirtCompute, KubeVirtNodePoolPlatform,
    KubeVirtRootVolume, Multiqueue, NodePoolPlatform, PersistentRootVolume, QosClass,
};
pub use self::status::{NodePoolCondition, NodePoolStatus, NodeVersion, NodesInfo};

/// A span of time such as `1h30m`.
const DURATION: &str = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$";

/// What a pool of nodes should be.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[schemars(
    transform = schema::required(&["management"]),
    extend("x-kubernetes-validations" = [
        schema::rule("!has(self.replicas) || !has(self.autoScaling)", "replicas and autoScaling exclude each other"),
        schema::rule(
            "!has(self.autoScaling) || self.autoScaling.min > 0 || self.platform.type in ['AWS', 'Azure']",
            "autoScaling.min can be 0 only on AWS and Azure",
        ),
    ])
)]
pub struct NodePoolSpec {
    /// The cluster the nodes belong to, in the same namespace.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
        extend("x-kubernetes-validations" = schema::immutable("clusterName"))
    )]
    pub cluster_name: String,
    /// The release the nodes run.
    pub release: Release,
    /// Where the nodes come from; the same as the cluster's.
    pub platform: NodePoolPlatform,
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
    /// ConfigMaps with configuration of the nodes, in key `config`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub config: Vec<Reference>,
    /// ConfigMaps with tuning of the nodes, in key `tuning`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub tuning_config: Vec<Reference>,
    /// How long a node that goes may be drained; `0s` for as long as it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub node_drain_timeout: Option<String>,
    /// How long the volumes of a node that goes may take to be detached; `0s` for as long as it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub node_volume_detach_timeout: Option<String>,
    /// Labels that a node gets when it is made.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_labels: BTreeMap<String, String>,
    /// Taints that a node gets when it is made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub taints: Vec<NodeTaint>,
    /// Nothing is reconciled until this time, or for as long as it is `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 4, max = 35), extend("x-kubernetes-validations" = [schema::pause()]))]
    pub paused_until: Option<String>,
    /// The processors of the nodes.
    #[serde(default = "default_arch")]
    #[schemars(extend(
        "enum" = ["amd64", "arm64", "ppc64le", "s390x"],
        "x-kubernetes-validations" = schema::immutable("arch")
    ))]
    pub arch: String,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Bounds of the number of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule("self.max >= self.min", "autoScaling.max is at least autoScaling.min"),
]))]
pub struct AutoScaling {
    /// At least.
    #[schemars(range(min = 0))]
    pub min: i32,
    /// At most.
    #[schemars(range(min = 1))]
    pub max: i32,
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
    #[schemars(extend("enum" = ["NoSchedule", "PreferNoSchedule", "NoExecute"]))]
    pub effect: String,
}

// === impl NodePoolSpec ===

/// What the API server would make of a spec with no more than it has to have.
impl Default for NodePoolSpec {
    fn default() -> Self {
        Self {
            cluster_name: String::new(),
            release: Release::default(),
            platform: NodePoolPlatform::default(),
            replicas: None,
            auto_scaling: None,
            management: NodePoolManagement::default(),
            config: Vec::new(),
            tuning_config: Vec::new(),
            node_drain_timeout: None,
            node_volume_detach_timeout: None,
            node_labels: BTreeMap::new(),
            taints: Vec::new(),
            paused_until: None,
            arch: default_arch(),
            other: BTreeMap::new(),
        }
    }
}

fn default_arch() -> String {
    "amd64".to_owned()
}
