//! What was observed of a hosted cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Reference;
use crate::{Condition, schema};

/// What was observed of a hosted cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostedClusterStatus {
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Which versions the cluster ran and runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<ClusterVersionStatus>,
    /// Which versions the control plane ran and runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_version: Option<ControlPlaneVersionStatus>,
    /// The Secret with the administrator's kubeconfig, in key `kubeconfig`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<Reference>,
    /// The Secret with the kubeconfig for the further name of the API server, in key `kubeconfig`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_kubeconfig: Option<Reference>,
    /// The Secret with the password of user `kubeadmin`, in key `password`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeadmin_password: Option<Reference>,
    /// The host that nodes are configured by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignition_endpoint: Option<String>,
    /// Where the API server is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ControlPlaneEndpoint>,
    /// Where identity providers send users back to, with a gap for the provider's name.
    #[serde(rename = "oauthCallbackURLTemplate", skip_serializing_if = "Option::is_none")]
    pub oauth_callback_url_template: Option<String>,
    /// Which programs the control plane consists of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["light", "upstream"]))]
    pub payload: Option<String>,
    /// Which processors the release runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Multi", "AMD64", "ARM64", "PPC64LE", "S390X"]))]
    pub payload_arch: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl HostedClusterStatus {
    /// The reason of `ValidConfiguration` if nothing is wrong but that something is named which is not there. It may be on its way:
    /// whoever makes a cluster does not make everything at once.
    pub const MISSING_REFERENCE: &'static str = "MissingReference";
}

/// Which versions a cluster ran and runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersionStatus {
    /// What it should run.
    pub desired: DesiredRelease,
    /// What it ran, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryEntry>,
    /// The generation of the object that this is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// What it could be upgraded to; `null` if that is not known. Always written: readers expect the key.
    #[schemars(schema_with = "schema::optional_objects")]
    pub available_updates: Option<Vec<Value>>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Which versions a control plane ran and runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneVersionStatus {
    /// What it should run.
    pub desired: DesiredRelease,
    /// What it ran, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryEntry>,
    /// The generation of the object that this is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What a cluster should run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DesiredRelease {
    /// The image of the release.
    #[serde(default)]
    pub image: String,
    /// Its version, as far as it is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// One version in a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// How far it came.
    pub state: HistoryState,
    /// When it began.
    #[schemars(schema_with = "schema::time")]
    pub started_time: Time,
    /// When it was complete, or was given up for the next. Always written: readers expect the key.
    #[schemars(schema_with = "schema::optional_time")]
    pub completion_time: Option<Time>,
    /// The version.
    #[serde(default)]
    pub version: String,
    /// The image it came from.
    pub image: String,
    /// Whether the release was proven to be authentic.
    #[serde(default)]
    pub verified: bool,
}

/// How far a version came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HistoryState {
    /// It was rolled out.
    Completed,
    /// It is being rolled out, or never was to the end.
    Partial,
}

/// Where an API server is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ControlPlaneEndpoint {
    /// The host.
    pub host: String,
    /// The port.
    pub port: i32,
}
