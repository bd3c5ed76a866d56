//! Cluster API's kinds, as far as node pools use them: which machines there are, and which of them are well.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

mod cluster;
mod machine;
mod machine_deployment;
mod machine_health_check;
mod machine_set;

pub use self::cluster::{CapiCluster, CapiClusterSpec, CapiClusterStatus, CapiNetwork, CapiRanges};
pub use self::machine::{
    Bootstrap, Machine, MachineAddress, MachineSpec, MachineStatus, MachineTemplate, TemplateMetadata,
};
pub use self::machine_deployment::{
    MachineDeployment, MachineDeploymentSpec, MachineDeploymentStatus, MachineDeploymentStrategy,
};
pub use self::machine_health_check::{
    MachineHealthCheck, MachineHealthCheckSpec, MachineHealthCheckStatus, UnhealthyCondition,
};
pub use self::machine_set::{MachineSet, MachineSetSpec, MachineSetStatus};

/// Labels that things are chosen by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatchLabels {
    /// All of these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
}

impl From<MatchLabels> for LabelSelector {
    fn from(selector: MatchLabels) -> Self {
        Self { match_labels: Some(selector.match_labels), ..Self::default() }
    }
}

/// A reference to an object of any kind: [`ObjectReference`].
fn object_reference(_: &mut SchemaGenerator) -> Schema {
    let text = || serde_json::json!({ "type": "string" });
    json_schema!({
        "type": "object",
        "properties": {
            "apiVersion": text(), "kind": text(), "namespace": text(), "name": text(), "uid": text(),
            "resourceVersion": text(), "fieldPath": text(),
        },
    })
}

/// That nothing is referred to.
fn is_nothing(reference: &ObjectReference) -> bool {
    *reference == ObjectReference::default()
}
