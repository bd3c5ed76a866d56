//! `IngressController`: which routes a router admits.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Condition, schema};

/// What a router should be.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operator.openshift.io",
    version = "v1",
    kind = "IngressController",
    plural = "ingresscontrollers",
    namespaced,
    status = "IngressControllerStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Which routes a router admits.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.availableReplicas",
        label_selector_path = ".status.selector"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct IngressControllerSpec {
    /// The domain of its routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// How many replicas it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Which routes it admits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route_admission: Option<RouteAdmission>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Which routes a router admits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteAdmission {
    /// Whether one host may be claimed from several namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["InterNamespaceAllowed", "Strict"]))]
    pub namespace_ownership: Option<String>,
    /// Whether a route may be for all hosts of a domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["WildcardsAllowed", "WildcardsDisallowed"]))]
    pub wildcard_policy: Option<String>,
}

/// What was observed of a router.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressControllerStatus {
    /// How many replicas can be used.
    #[serde(default)]
    pub available_replicas: i32,
    /// Which pods they are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// The domain of its routes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// How it is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub endpoint_publishing_strategy: Option<Value>,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation of the object that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}
