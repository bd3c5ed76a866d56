//! Parts of clusters and node pools that several places name.

use serde::{Deserialize, Serialize};

/// From where an API server can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CidrBlockAccess {
    /// Who is let in.
    pub allow: CidrBlockAllow,
}

/// Who is let in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CidrBlockAllow {
    /// Whether the list counts.
    pub mode: AllowMode,
    /// Addresses and ranges, such as `203.0.113.0/24`.
    pub values: Vec<String>,
}

/// Whether everybody is let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllowMode {
    /// Everybody.
    #[default]
    AllowAll,
    /// Who is on the list.
    AllowList,
}

/// Where applications are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ingresses {
    /// One or more ways in.
    pub items: Vec<Ingress>,
}

/// One way in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ingress {
    /// Whether it is the one that applications have unless they ask for another.
    pub default: bool,
    /// Who can reach it.
    pub listening: crate::Listening,
}

/// A cluster's own registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageRegistry {
    /// Whether it has one.
    pub state: Switch,
}

/// Whether something is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// On.
    #[default]
    Enabled,
    /// Off.
    Disabled,
}

/// Where images are fetched from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegistryConfig {
    /// Other places for images that are named by their digest: all of them.
    pub image_digest_mirrors: Vec<ImageDigestMirror>,
}

/// Other places for the images of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageDigestMirror {
    /// Where images are said to be.
    pub source: String,
    /// Where they are looked for first, in this order.
    pub mirrors: Vec<String>,
}

/// How a cluster's node pools are scaled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Autoscaler {
    /// How long a node may take to come, such as `15m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_node_provision_time: Option<String>,
    /// How many seconds a pod is given to end before its node goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pod_grace_period: Option<i32>,
    /// Pods below it neither make nodes come nor keep them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_priority_threshold: Option<i32>,
    /// How far scaling may go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_limits: Option<ResourceLimits>,
}

/// How far scaling may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceLimits {
    /// How many nodes all pools together may have; nought is the service's own limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_nodes_total: Option<u32>,
}

/// How long something may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GracePeriod {
    /// How many; nought is no limit.
    pub value: u32,
    /// Of what: always `minutes`.
    #[serde(default = "minutes")]
    pub unit: String,
}

impl GracePeriod {
    /// So many minutes.
    pub fn minutes(value: u32) -> Self {
        Self { value, unit: minutes() }
    }
}

impl CidrBlockAccess {
    /// Everybody, from everywhere.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only these addresses and ranges.
    pub fn only(values: Vec<String>) -> Self {
        Self { allow: CidrBlockAllow { mode: AllowMode::AllowList, values } }
    }
}

fn minutes() -> String {
    "minutes".to_owned()
}
