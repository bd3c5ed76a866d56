//! `MultiClusterEngine`: which parts of the multicluster engine a management cluster has.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Condition, ConditionStatus, schema};

/// What is wanted of the engine. Nothing has to be said.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "multicluster.openshift.io",
    version = "v1",
    kind = "MultiClusterEngine",
    plural = "multiclusterengines",
    shortname = "mce",
    status = "MultiClusterEngineStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Which parts of the multicluster engine this management cluster has.",
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.phase", "description": "How far it is"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "CurrentVersion", "type": "string", "jsonPath": ".status.currentVersion", "description": "The version that runs"}"#,
    printcolumn = r#"{"name": "DesiredVersion", "type": "string", "jsonPath": ".status.desiredVersion", "description": "The version that is wanted"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Available\")].message", "description": "Message"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MultiClusterEngineSpec {
    /// Whether it survives the loss of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["High", "Basic"]))]
    pub availability_config: Option<String>,
    /// The namespace of its parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_namespace: Option<String>,
    /// What the management cluster is called among the managed ones.
    #[serde(default = "default_local_cluster_name")]
    pub local_cluster_name: String,
    /// The Secret with credentials for image registries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_secret: Option<String>,
    /// Which nodes its pods may run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Which taints its pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tolerations")]
    pub tolerations: Vec<Toleration>,
    /// What is different from the usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overrides: Option<MultiClusterEngineOverrides>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What is different from the usual.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MultiClusterEngineOverrides {
    /// When images are pulled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// Which parts are switched on or off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<ComponentOverride>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A part that is switched on or off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentOverride {
    /// Its name.
    pub name: String,
    /// Whether it is on.
    pub enabled: bool,
    /// What is different about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub config_overrides: Option<Value>,
}

/// What was observed of the engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MultiClusterEngineStatus {
    /// How far it is, in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// The version that runs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub current_version: String,
    /// The version that is wanted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub desired_version: String,
    /// Its parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<ComponentCondition>,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// How a part of the engine is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentCondition {
    /// The part's name.
    pub name: String,
    /// What it is, such as `Deployment`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// What is said of it, such as `Available`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether that holds.
    pub status: ConditionStatus,
    /// Why, in one word for programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in a sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When `status` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_time")]
    pub last_transition_time: Option<Time>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

// === impl MultiClusterEngineSpec ===

impl Default for MultiClusterEngineSpec {
    fn default() -> Self {
        Self {
            availability_config: None,
            target_namespace: None,
            local_cluster_name: default_local_cluster_name(),
            image_pull_secret: None,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            overrides: None,
            other: BTreeMap::new(),
        }
    }
}

fn default_local_cluster_name() -> String {
    "local-cluster".to_owned()
}
