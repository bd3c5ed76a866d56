//! `OperatorGroup` and `Subscription`: how people ask for an operator.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// What the operators of a namespace look after.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1",
    kind = "OperatorGroup",
    plural = "operatorgroups",
    shortname = "og",
    category = "olm",
    namespaced,
    status = "OperatorGroupStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "What the operators of a namespace look after."
)]
#[serde(rename_all = "camelCase")]
pub struct OperatorGroupSpec {
    /// The namespaces; all if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_namespaces: Vec<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What was observed of a group of operators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorGroupStatus {
    /// The namespaces that its operators look after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// When that last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_time")]
    pub last_updated: Option<Time>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Which operator is asked for.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "Subscription",
    plural = "subscriptions",
    shortname = "sub",
    shortname = "subs",
    category = "olm",
    namespaced,
    status = "SubscriptionStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "An operator that is asked for, and from where.",
    printcolumn = r#"{"name": "Package", "type": "string", "jsonPath": ".spec.name", "description": "The package that is asked for"}"#,
    printcolumn = r#"{"name": "Source", "type": "string", "jsonPath": ".spec.source", "description": "The catalogue it is in"}"#,
    printcolumn = r#"{"name": "Channel", "type": "string", "jsonPath": ".spec.channel", "description": "The channel of its updates"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionSpec {
    /// The package.
    pub name: String,
    /// The catalogue it is in.
    pub source: String,
    /// The namespace of that catalogue.
    pub source_namespace: String,
    /// The channel of its updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The version to begin with.
    #[serde(rename = "startingCSV", skip_serializing_if = "Option::is_none")]
    pub starting_csv: Option<String>,
    /// Whether somebody must approve.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Automatic", "Manual"]))]
    pub install_plan_approval: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What was observed of a subscription.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionStatus {
    /// How far it is, such as `AtLatestKnown`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// The version that is to be installed.
    #[serde(rename = "currentCSV", default, skip_serializing_if = "String::is_empty")]
    pub current_csv: String,
    /// The version that is installed.
    #[serde(rename = "installedCSV", default, skip_serializing_if = "String::is_empty")]
    pub installed_csv: String,
    /// When this last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_time")]
    pub last_updated: Option<Time>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}
