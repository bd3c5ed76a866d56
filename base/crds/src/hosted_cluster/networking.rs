//! Names and address ranges of a hosted cluster.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Names the cluster is reachable by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dns {
    /// The zone that the cluster's names are in.
    #[serde(default)]
    pub base_domain: String,
    /// The cluster's label in that zone: absent for the cluster's name, empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_domain_prefix: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Address ranges of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Networking {
    /// Ranges of pod addresses.
    #[serde(default = "default_cluster_network")]
    pub cluster_network: Vec<ClusterNetworkEntry>,
    /// Ranges of service addresses.
    #[serde(default = "default_service_network")]
    pub service_network: Vec<ServiceNetworkEntry>,
    /// Ranges of machine addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machine_network: Vec<ServiceNetworkEntry>,
    /// Which network the cluster runs.
    #[serde(default = "default_network_type")]
    pub network_type: String,
    /// Where nodes find the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server: Option<AdvertisedAddress>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A range of pod addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetworkEntry {
    /// The range.
    pub cidr: String,
    /// The size of a node's part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_prefix: Option<i32>,
}

/// A range of addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceNetworkEntry {
    /// The range.
    pub cidr: String,
}

/// Where nodes find the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdvertisedAddress {
    /// The address inside every node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise_address: Option<String>,
    /// The port there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

// === impl Dns ===

impl Dns {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

// === impl Networking ===

impl Default for Networking {
    fn default() -> Self {
        Self {
            cluster_network: default_cluster_network(),
            service_network: default_service_network(),
            machine_network: Vec::new(),
            network_type: default_network_type(),
            api_server: None,
            other: BTreeMap::new(),
        }
    }
}

fn default_cluster_network() -> Vec<ClusterNetworkEntry> {
    vec![ClusterNetworkEntry { cidr: "10.132.0.0/14".to_owned(), host_prefix: None }]
}

fn default_service_network() -> Vec<ServiceNetworkEntry> {
    vec![ServiceNetworkEntry { cidr: "172.31.0.0/16".to_owned() }]
}

fn default_network_type() -> String {
    "OVNKubernetes".to_owned()
}
