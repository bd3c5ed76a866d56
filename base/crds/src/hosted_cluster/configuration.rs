//! What a cluster is configured by, beyond what its control plane itself needs to know.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// What OpenShift's configuration objects would hold inside the cluster, one member per kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterConfiguration {
    /// The API server: audit, certificates, ciphers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub api_server: Option<Value>,
    /// Who may say who somebody is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub authentication: Option<Value>,
    /// Which features are switched on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub feature_gate: Option<Value>,
    /// Which registries are used. A change replaces nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub image: Option<Value>,
    /// The domain of applications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub ingress: Option<Value>,
    /// Policies about addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub network: Option<Value>,
    /// Identity providers and tokens of the OAuth server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub oauth: Option<Value>,
    /// Catalogues of operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub operatorhub: Option<Value>,
    /// The scheduler's profile and policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub scheduler: Option<Value>,
    /// How the outside is reached. A change replaces nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub proxy: Option<Value>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Where images are found besides where their names say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageContentSource {
    /// The repository in their names.
    pub source: String,
    /// Repositories with the same images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 25))]
    pub mirrors: Vec<String>,
}

/// Where the catalogues of operators run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OlmCatalogPlacement {
    /// With the control plane.
    #[default]
    Management,
    /// On the cluster's own nodes.
    Guest,
}

/// Which optional parts a cluster has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule("self == oldSelf", "capabilities is immutable"),
    schema::rule(
        "!has(self.enabled) || !has(self.disabled) || !self.enabled.exists(c, c in self.disabled)",
        "a capability is not both enabled and disabled",
    ),
    schema::rule(
        "!has(self.disabled) || !('Ingress' in self.disabled) || 'Console' in self.disabled",
        "Ingress can be disabled only with Console disabled",
    ),
]))]
pub struct Capabilities {
    /// Those it has though they are not usual.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 25))]
    pub enabled: Vec<OptionalCapability>,
    /// Those it does not have though they are usual.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 25))]
    pub disabled: Vec<OptionalCapability>,
}

/// An optional part of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OptionalCapability {
    /// The registry inside the cluster.
    ImageRegistry,
    /// Samples of image streams.
    #[serde(rename = "openshift-samples")]
    Samples,
    /// Reports about the cluster.
    Insights,
    /// Machines of metal.
    #[serde(rename = "baremetal")]
    BareMetal,
    /// The web console.
    Console,
    /// Tuning of nodes.
    NodeTuning,
    /// The router of applications.
    Ingress,
}

/// `operatorConfiguration` of a hosted cluster.
pub(crate) fn of_operators(generator: &mut SchemaGenerator) -> Schema {
    let open = schema::open_object(generator);
    json_schema!({
        "type": "object",
        "properties": {
            "clusterVersionOperator": open,
            "clusterNetworkOperator": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "disableMultiNetwork": { "type": "boolean" },
                    "ovnKubernetesConfig": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": true,
                        "properties": {
                            "mtu": { "type": "integer", "format": "int32", "minimum": 576, "maximum": 9216 },
                        },
                    },
                },
            },
            "ingressOperator": open,
        },
    })
}

/// `monitoring` of a hosted cluster.
pub(crate) fn of_monitoring(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "metricsForwarding": {
                "type": "object",
                "properties": { "mode": { "type": "string", "enum": ["Forward", "None"] } },
            },
            "metricsSet": { "type": "string", "enum": ["Telemetry", "SRE", "All"] },
        },
    })
}
