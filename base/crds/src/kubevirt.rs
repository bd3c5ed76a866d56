//! KubeVirt's kinds, as far as node pools use them: machines that are pods.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ConditionStatus, schema};

mod virtual_machine;
mod virtual_machine_instance;

pub use self::virtual_machine::{
    VirtualMachine, VirtualMachineSpec, VirtualMachineStatus, VirtualMachineTemplate,
};
pub use self::virtual_machine_instance::{
    CloudInit, Domain, DomainCpu, DomainMemory, MachineVolume, VirtualMachineInstance,
    VirtualMachineInstanceSpec, VirtualMachineInstanceStatus, VirtualMachineInterface,
};

/// One aspect of a machine's state. Unlike other conditions it may leave out the reason and the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineCondition {
    /// What the condition is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in one word for programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in a sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_time")]
    pub last_probe_time: Option<Time>,
    /// When `status` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_time")]
    pub last_transition_time: Option<Time>,
}
