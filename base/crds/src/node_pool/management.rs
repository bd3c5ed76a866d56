//! How the nodes of a pool are replaced and repaired.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// How nodes are replaced and repaired.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::required(&["upgradeType"]))]
pub struct NodePoolManagement {
    /// Whether a node is made anew or changed in place.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("management.upgradeType")))]
    pub upgrade_type: UpgradeType,
    /// How nodes are made anew, for `Replace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace: Option<ReplaceUpgrade>,
    /// How nodes are changed in place, for `InPlace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place: Option<InPlaceUpgrade>,
    /// Whether sick nodes are replaced.
    #[serde(default)]
    pub auto_repair: bool,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// How nodes change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeType {
    /// A new node takes the place of the old one.
    #[default]
    Replace,
    /// The node stays and changes.
    InPlace,
}

/// How nodes are made anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplaceUpgrade {
    /// By whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<ReplaceStrategy>,
    /// How many at a time, for `RollingUpdate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

/// By whom old nodes are taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReplaceStrategy {
    /// They are replaced one after the other.
    #[default]
    RollingUpdate,
    /// Whoever deletes one gets a new one.
    OnDelete,
}

/// How many nodes are replaced at a time: numbers or shares in percent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// How many may be missing.
    #[serde(default = "none")]
    #[schemars(schema_with = "schema::number_or_text")]
    pub max_unavailable: IntOrString,
    /// How many more than wanted there may be.
    #[serde(default = "one")]
    #[schemars(schema_with = "schema::number_or_text")]
    pub max_surge: IntOrString,
}

/// How nodes are changed in place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceUpgrade {
    /// How many may be missing: a number or a share in percent.
    #[serde(default = "one")]
    #[schemars(schema_with = "schema::number_or_text")]
    pub max_unavailable: IntOrString,
}

// === impl RollingUpdate ===

impl Default for RollingUpdate {
    fn default() -> Self {
        Self { max_unavailable: none(), max_surge: one() }
    }
}

// === impl InPlaceUpgrade ===

impl Default for InPlaceUpgrade {
    fn default() -> Self {
        Self { max_unavailable: one() }
    }
}

fn none() -> IntOrString {
    IntOrString::Int(0)
}

fn one() -> IntOrString {
    IntOrString::Int(1)
}
