//! `Cluster`: what Cluster API knows of a cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ControlPlaneEndpoint, NodePoolCondition};

/// What a cluster should be.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Cluster",
    root = "CapiCluster",
    plural = "clusters",
    shortname = "cl",
    category = "cluster-api",
    namespaced,
    status = "CapiClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "What Cluster API knows of a cluster.",
    printcolumn = r#"{"name": "ClusterClass", "type": "string", "jsonPath": ".spec.topology.class", "description": "ClusterClass of this Cluster, empty if it has none"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "How far the cluster is"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the cluster was made"}"#,
    printcolumn = r#"{"name": "Version", "type": "string", "jsonPath": ".spec.topology.version", "description": "Version of Kubernetes of this Cluster"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct CapiClusterSpec {
    /// Whether nothing is reconciled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Address ranges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_network: Option<CapiNetwork>,
    /// Where the API server is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ControlPlaneEndpoint>,
    /// The control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::object_reference")]
    pub control_plane_ref: Option<ObjectReference>,
    /// What the machines are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::object_reference")]
    pub infrastructure_ref: Option<ObjectReference>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Address ranges of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapiNetwork {
    /// The port of the API server.
    #[serde(rename = "apiServerPort", skip_serializing_if = "Option::is_none")]
    pub api_server_port: Option<i32>,
    /// Of services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<CapiRanges>,
    /// Of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<CapiRanges>,
    /// The domain of services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_domain: Option<String>,
}

/// Ranges of addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapiRanges {
    /// The ranges.
    pub cidr_blocks: Vec<String>,
}

/// What was observed of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapiClusterStatus {
    /// How far it is, in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Whether what machines need is there.
    #[serde(default)]
    pub infrastructure_ready: bool,
    /// Whether the control plane can be used.
    #[serde(default)]
    pub control_plane_ready: bool,
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
