//! `VirtualMachine`: a machine that is there also while it does not run.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{VirtualMachineCondition, VirtualMachineInstanceSpec};
use crate::{TemplateMetadata, schema};

/// What a machine should be.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "VirtualMachine",
    plural = "virtualmachines",
    shortname = "vm",
    shortname = "vms",
    category = "all",
    namespaced,
    status = "VirtualMachineStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A machine that is there also while it does not run.",
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.printableStatus", "description": "How the machine is"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineSpec {
    /// When it runs: `Always`, `RerunOnFailure`, `Manual`, `Halted` or `Once`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_strategy: Option<String>,
    /// Whether it runs; the older way to say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<bool>,
    /// What it is when it runs.
    pub template: VirtualMachineTemplate,
    /// Volumes that are made with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub data_volume_templates: Vec<Value>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What a machine is when it runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VirtualMachineTemplate {
    /// What the instance is labelled with.
    #[serde(default)]
    pub metadata: TemplateMetadata,
    /// What the instance should be.
    #[serde(default)]
    pub spec: VirtualMachineInstanceSpec,
}

/// What was observed of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineStatus {
    /// Whether there is an instance.
    #[serde(default)]
    pub created: bool,
    /// Whether the instance is ready.
    #[serde(default)]
    pub ready: bool,
    /// How it is, in a word for people: `Starting`, `Running`, `Stopped`, …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub printable_status: String,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<VirtualMachineCondition>,
    /// The generation of the object that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}
