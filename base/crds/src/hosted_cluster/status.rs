//! What was observed of a hosted cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Reference, Release};
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
    /// Where the API server is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ControlPlaneEndpoint>,
    /// Which processors the release runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_arch: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Which versions a cluster ran and runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersionStatus {
    /// What it should run.
    pub desired: Release,
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
    pub desired: Release,
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
