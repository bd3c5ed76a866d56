//! `Route`: a host name at the gateway, and the service behind it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ConditionStatus, schema};

/// Which host name leads where.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "route.openshift.io",
    version = "v1",
    kind = "Route",
    plural = "routes",
    namespaced,
    status = "RouteStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A host name at the gateway, and the service behind it.",
    printcolumn = r#"{"name": "Host", "type": "string", "jsonPath": ".status.ingress[0].host"}"#,
    printcolumn = r#"{"name": "Admitted", "type": "string", "jsonPath": ".status.ingress[0].conditions[?(@.type==\"Admitted\")].status"}"#,
    printcolumn = r#"{"name": "Service", "type": "string", "jsonPath": ".spec.to.name"}"#,
    printcolumn = r#"{"name": "TLS", "type": "string", "jsonPath": ".spec.tls.termination"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct RouteSpec {
    /// The host name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The service.
    pub to: RouteTargetReference,
    /// Which port of the service; any if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<RoutePort>,
    /// What is done about TLS; plain HTTP if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<RouteTls>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What a route leads to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteTargetReference {
    /// Its kind.
    #[serde(default = "default_target_kind")]
    pub kind: String,
    /// Its name, in the namespace of the route.
    pub name: String,
    /// Its share among several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// A port of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutePort {
    /// Its number or its name.
    #[schemars(schema_with = "schema::number_or_text")]
    pub target_port: IntOrString,
}

/// What is done about TLS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteTls {
    /// Who ends the encrypted connection.
    pub termination: RouteTermination,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Who ends an encrypted connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RouteTermination {
    /// The gateway.
    Edge,
    /// The service; the gateway passes it on unread.
    Passthrough,
    /// The gateway, which begins another one to the service.
    Reencrypt,
}

/// What was observed of a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteStatus {
    /// The gateways that serve it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<RouteIngress>,
}

/// A gateway that serves a route, or refuses to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteIngress {
    /// The host name it serves.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// What the gateway is called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub router_name: String,
    /// The host name that the gateway itself is reached by.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub router_canonical_hostname: String,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<RouteIngressCondition>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Whether a gateway serves a route. Unlike other conditions it may leave out the reason and the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteIngressCondition {
    /// What the condition is about: `Admitted`.
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
    /// When `status` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_time")]
    pub last_transition_time: Option<Time>,
}

// === impl RouteTargetReference ===

impl Default for RouteTargetReference {
    fn default() -> Self {
        Self { kind: default_target_kind(), name: String::new(), weight: None }
    }
}

impl RouteTargetReference {
    /// The service of this name.
    pub fn service(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

fn default_target_kind() -> String {
    "Service".to_owned()
}
