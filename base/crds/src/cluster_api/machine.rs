//! `Machine`: what one node runs on.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{NodePoolCondition, schema};

/// What a machine should be.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Machine",
    plural = "machines",
    shortname = "ma",
    category = "cluster-api",
    namespaced,
    status = "MachineStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "What one node runs on.",
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".spec.clusterName", "description": "Cluster"}"#,
    printcolumn = r#"{"name": "NodeName", "type": "string", "jsonPath": ".status.nodeRef.name", "description": "Node that runs on this machine"}"#,
    printcolumn = r#"{"name": "ProviderID", "type": "string", "jsonPath": ".spec.providerID", "description": "What its provider calls it"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "How far the machine is"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the machine was made"}"#,
    printcolumn = r#"{"name": "Version", "type": "string", "jsonPath": ".spec.version", "description": "Version of Kubernetes"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// The cluster it belongs to.
    #[schemars(length(min = 1))]
    pub cluster_name: String,
    /// How its node begins.
    #[serde(default)]
    pub bootstrap: Bootstrap,
    /// What it really is.
    #[serde(default, skip_serializing_if = "super::is_nothing")]
    #[schemars(schema_with = "super::object_reference")]
    pub infrastructure_ref: ObjectReference,
    /// The version of Kubernetes that its node runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What its provider calls it; the node says the same.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// What may fail with other machines at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// How long its node may be drained; `0s` for as long as it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_timeout: Option<String>,
    /// How long its node's volumes may take to be detached; `0s` for as long as it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_volume_detach_timeout: Option<String>,
    /// How long deletion of its node is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_deletion_timeout: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// How a node begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// Who makes the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::object_reference")]
    pub config_ref: Option<ObjectReference>,
    /// The Secret with the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_secret_name: Option<String>,
}

/// What machines are made after.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineTemplate {
    /// What they are labelled with.
    #[serde(default)]
    pub metadata: TemplateMetadata,
    /// What they should be.
    pub spec: MachineSpec,
}

/// What objects made after a template are labelled with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What was observed of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// How far it is, in one word: `Pending`, `Provisioning`, `Provisioned`, `Running`, `Deleting`, `Deleted`, `Failed`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// The node that runs on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::object_reference")]
    pub node_ref: Option<ObjectReference>,
    /// What its node says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub node_info: Option<Value>,
    /// When the phase last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_time")]
    pub last_updated: Option<Time>,
    /// Where it is reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// Whether the data its node begins with is there.
    #[serde(default)]
    pub bootstrap_ready: bool,
    /// Whether what it really is is there.
    #[serde(default)]
    pub infrastructure_ready: bool,
    /// Why it cannot be mended, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Why it cannot be mended, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
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

/// Where a machine is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineAddress {
    /// From where, and by what: `InternalIP`, `ExternalIP`, `Hostname`, `InternalDNS`, `ExternalDNS`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The address.
    pub address: String,
}
