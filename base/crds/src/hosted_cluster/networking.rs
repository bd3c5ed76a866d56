//! Names and address ranges of a hosted cluster.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// Names the cluster is reachable by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dns {
    /// The zone that the cluster's names are in.
    #[serde(default)]
    #[schemars(
        length(max = 253),
        extend("x-kubernetes-validations" = [
            schema::rule("oldSelf == '' || self == oldSelf", "dns.baseDomain is immutable once it is set"),
        ])
    )]
    pub base_domain: String,
    /// The cluster's label in that zone: absent for the cluster's name, empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub base_domain_prefix: Option<String>,
    /// The zone of names for everybody.
    #[serde(rename = "publicZoneID", default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 258))]
    pub public_zone_id: String,
    /// The zone of names for the cluster itself.
    #[serde(rename = "privateZoneID", default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 265))]
    pub private_zone_id: String,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Address ranges of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule(
        "!has(self.allocateNodeCIDRs) || self.allocateNodeCIDRs != 'Enabled' || self.networkType == 'Other'",
        "allocateNodeCIDRs can be Enabled only if networkType is Other",
    ),
]))]
pub struct Networking {
    /// Ranges of pod addresses.
    #[serde(default = "default_cluster_network")]
    #[schemars(length(min = 1, max = 2), extend("x-kubernetes-validations" = schema::immutable("networking.clusterNetwork")))]
    pub cluster_network: Vec<ClusterNetworkEntry>,
    /// Ranges of service addresses.
    #[serde(default = "default_service_network")]
    #[schemars(length(min = 1, max = 2), extend("x-kubernetes-validations" = schema::immutable("networking.serviceNetwork")))]
    pub service_network: Vec<ServiceNetworkEntry>,
    /// Ranges of machine addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 2), extend("x-kubernetes-validations" = schema::immutable("networking.machineNetwork")))]
    pub machine_network: Vec<ServiceNetworkEntry>,
    /// Which network the cluster runs.
    #[serde(default = "default_network_type")]
    #[schemars(extend(
        "enum" = ["OVNKubernetes", "OpenShiftSDN", "Calico", "Other"],
        "x-kubernetes-validations" = schema::immutable("networking.networkType")
    ))]
    pub network_type: String,
    /// Where nodes find the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server: Option<AdvertisedAddress>,
    /// Whether the control plane divides the range of pod addresses among the nodes.
    #[serde(rename = "allocateNodeCIDRs", skip_serializing_if = "Option::is_none")]
    pub allocate_node_cidrs: Option<Switch>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A range of pod addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetworkEntry {
    /// The range.
    #[schemars(length(max = 43))]
    pub cidr: String,
    /// The size of a node's part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_prefix: Option<i32>,
}

/// A range of addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceNetworkEntry {
    /// The range.
    #[schemars(length(max = 43))]
    pub cidr: String,
}

/// Where nodes find the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdvertisedAddress {
    /// The address inside every node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("networking.apiServer.advertiseAddress")))]
    pub advertise_address: Option<String>,
    /// The port there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("networking.apiServer.port")))]
    pub port: Option<i32>,
    /// From which ranges the API server may be reached; from everywhere if there are none.
    #[serde(rename = "allowedCIDRBlocks", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500))]
    pub allowed_cidr_blocks: Vec<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Switch {
    /// On.
    Enabled,
    /// Off.
    Disabled,
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
            allocate_node_cidrs: None,
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
