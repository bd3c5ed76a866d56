//! `AppliedManifestWork`: the owner of what a work applied, on the cluster it was applied to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Which work it stands for.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "work.open-cluster-management.io",
    version = "v1",
    kind = "AppliedManifestWork",
    plural = "appliedmanifestworks",
    status = "AppliedManifestWorkStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The owner of what a ManifestWork applied, on the cluster it was applied to."
)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestWorkSpec {
    /// Names the hub the work came from.
    pub hub_hash: String,
    /// Names the agent that applied it.
    #[serde(rename = "agentID", default)]
    pub agent_id: String,
    /// The work's name on its hub.
    pub manifest_work_name: String,
}

/// What was applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestWorkStatus {
    /// The objects that were applied, in the order of group, version, resource, namespace, name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied_resources: Vec<AppliedResource>,
    /// Since when the work is missing on its hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_time")]
    pub eviction_start_time: Option<Time>,
}

/// An object that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct AppliedResource {
    /// Its API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its resource, in the plural.
    pub resource: String,
    /// Its namespace; empty for objects of the whole cluster.
    #[serde(default)]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Tells it from another object of the same name.
    #[serde(default)]
    pub uid: String,
}
