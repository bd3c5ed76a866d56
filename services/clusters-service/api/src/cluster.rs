use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Autoscaler, Azure, CidrBlockAccess, ClusterId, GracePeriod, ImageRegistry, Ingresses, Moments, Reference,
    RegistryConfig, Version,
};

/// A cluster as it is asked for. Text that is empty is refused: leave out what is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NewCluster {
    /// Chosen by the service unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<ClusterId>,
    /// The cluster's name, in lower case. Names need not be unique.
    pub name: String,
    /// Where it is to run; the service's own region unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Reference>,
    /// The label below the base domain, unique in the region. Derived from the name unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain_prefix: Option<String>,
    /// What it is to run.
    pub version: Version,
    /// Address ranges; the service's defaults where left out.
    pub network: Network,
    /// What may be reached, and from where; everybody from everywhere unless given.
    pub api: Api,
    /// Always `azure`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_provider: Option<Reference>,
    /// Always `aro`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<Reference>,
    /// Always enabled: the control plane is hosted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypershift: Option<Enabled>,
    /// Always enabled: the nodes are in the customer's subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ccs: Option<Enabled>,
    /// Whether only validated cryptography is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fips: Option<bool>,
    /// Where applications are reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingresses: Option<Ingresses>,
    /// Whether the cluster has a registry of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_registry: Option<ImageRegistry>,
    /// Where images are fetched from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry_config: Option<RegistryConfig>,
    /// How node pools are scaled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<Autoscaler>,
    /// How long a node may take to be emptied; nought is for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_grace_period: Option<GracePeriod>,
    /// Free-form; see [`crate::properties`] for the names with a meaning.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// The ARM resource it stands for.
    pub azure: Azure,
}

/// A cluster as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Always `Cluster`.
    pub kind: String,
    /// The service's own id.
    pub id: ClusterId,
    /// Its path, below which its node pools and status are.
    pub href: String,
    /// The cluster's name.
    pub name: String,
    /// When it was asked for.
    pub creation_timestamp: Timestamp,
    /// Where it runs.
    pub region: Reference,
    /// Always `azure`.
    pub cloud_provider: Reference,
    /// Always `aro`.
    pub product: Reference,
    /// Always enabled: the control plane is hosted.
    pub hypershift: Enabled,
    /// The label below the base domain; also the name of the `HostedCluster`.
    pub domain_prefix: String,
    /// Where its names are.
    pub dns: Dns,
    /// What it runs.
    pub version: Version,
    /// Address ranges.
    pub network: Network,
    /// Where its API is, once that is known.
    pub api: Api,
    /// Always enabled: the nodes are in the customer's subscription.
    #[serde(default)]
    pub ccs: Enabled,
    /// Whether only validated cryptography is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fips: Option<bool>,
    /// Where applications are reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingresses: Option<Ingresses>,
    /// Whether the cluster has a registry of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_registry: Option<ImageRegistry>,
    /// Where images are fetched from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_config: Option<RegistryConfig>,
    /// How node pools are scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<Autoscaler>,
    /// How long a node may take to be emptied; nought is for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_drain_grace_period: Option<GracePeriod>,
    /// Free-form.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// The ARM resource it stands for.
    pub azure: Azure,
    /// The same as in `status`, for those that look here.
    pub state: ClusterState,
    /// Where it stands and why.
    pub status: ClusterStatus,
}

/// Which life a cluster is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClusterState {
    /// Accepted and kept; nothing was done yet.
    #[default]
    Validating,
    /// Its cloud resources are being prepared.
    Pending,
    /// It was handed to its management cluster.
    Installing,
    /// It answers.
    Ready,
    /// It is being changed.
    Updating,
    /// It failed, see the provision error.
    Error,
    /// It is being deleted.
    Uninstalling,
    /// A state that this build does not know.
    #[serde(other)]
    Unknown,
}

/// Where a cluster stands and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterStatus {
    /// The state.
    pub state: ClusterState,
    /// What it is waiting for, or what happened last, in words.
    pub description: String,
    /// Whether its DNS zone exists.
    pub dns_ready: bool,
    /// Whether the issuer of its tokens can be asked for its keys.
    pub oidc_ready: bool,
    /// Which kind of failure, in state `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provision_error_code: Option<String>,
    /// What was observed and what to do, in state `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provision_error_message: Option<String>,
    /// `full`, or `read_only` while nothing may be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration_mode: Option<String>,
    /// For how many reasons support for it is limited.
    pub limited_support_reason_count: u32,
    /// How many nodes are ready.
    pub current_compute: u32,
    /// When its creation came past its steps.
    #[serde(skip_serializing_if = "Moments::is_empty")]
    pub moments: Moments,
}

/// Address ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// The network plug-in.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub network_type: Option<String>,
    /// Pods' addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_cidr: Option<String>,
    /// Services' addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_cidr: Option<String>,
    /// Nodes' addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_cidr: Option<String>,
    /// How many leading bits of the pod range are one node's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_prefix: Option<u8>,
}

/// A cluster's API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Api {
    /// Where it is, once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Who can reach it.
    pub listening: Listening,
    /// From where it can be reached; from everywhere unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cidr_block_access: Option<CidrBlockAccess>,
}

/// Who can reach something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listening {
    /// Everybody.
    #[default]
    External,
    /// The cluster's own network.
    Internal,
}

/// Where a cluster's names are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dns {
    /// The zone that the domain prefix is a label in.
    pub base_domain: String,
}

/// Something that can be switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enabled {
    /// Whether it is.
    pub enabled: bool,
}
