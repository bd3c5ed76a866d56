use std::collections::BTreeMap;

use pilothouse_arm::{ProvisioningState, ResourceId, SystemData};
use serde::{Deserialize, Serialize};

use super::choice::{
    CryptoRestrictions, EncryptionType, KeyVaultType, NetworkType, OutboundType, RegistryState, Visibility,
};
use super::identity::Identity;
use super::status::Condition;

/// A cluster whose control plane is hosted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its name among all resources, as it was spelled last.
    pub id: ResourceId,
    /// The region it is in.
    pub location: String,
    /// What its owner calls it by.
    pub tags: BTreeMap<String, String>,
    /// Who made and changed it.
    pub system_data: SystemData,
    /// What it may act under.
    pub identity: Option<Identity>,
    /// What its owner asked for.
    pub spec: ClusterSpec,
    /// What was observed.
    pub status: ClusterStatus,
}

/// What the owner of a cluster asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSpec {
    /// What it runs.
    pub version: VersionProfile,
    /// The first label of its host names; chosen by the service if not by the owner.
    pub base_domain_prefix: Option<String>,
    /// Its address ranges.
    pub network: Network,
    /// Its API server.
    pub api: Api,
    /// Who may reach its applications.
    pub ingress: Visibility,
    /// Where it stands in the cloud.
    pub platform: Platform,
    /// How its node pools may grow together.
    pub autoscaling: Autoscaling,
    /// How long a node may take to be emptied; 0 for as long as it takes.
    pub node_drain_timeout_minutes: i32,
    /// How its state is encrypted.
    pub etcd: Etcd,
    /// Whether it has an image registry.
    pub image_registry: RegistryState,
    /// Where images are taken from instead.
    pub image_digest_mirrors: Vec<ImageDigestMirror>,
    /// Which cryptography is allowed.
    pub crypto_restrictions: CryptoRestrictions,
}

/// A version and the channel it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionProfile {
    /// `4.20` for a cluster, `4.20.8` for a node pool; chosen by the service if absent.
    pub id: Option<String>,
    /// `stable` or `fast`.
    pub channel_group: String,
}

/// Address ranges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// The plug-in.
    pub network_type: NetworkType,
    /// Of pods.
    pub pod_cidr: String,
    /// Of services.
    pub service_cidr: String,
    /// Of machines.
    pub machine_cidr: String,
    /// The size of one node's part of the pods' range.
    pub host_prefix: i32,
}

/// The API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Api {
    /// Who may reach it.
    pub visibility: Visibility,
    /// From where it may be called; from everywhere if absent.
    pub authorized_cidrs: Option<Vec<String>>,
}

/// Where a cluster stands in the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// The resource group in which the service keeps the cluster's cloud resources; named by the service if absent.
    pub managed_resource_group: Option<String>,
    /// Of the nodes.
    pub subnet_id: Option<ResourceId>,
    /// Through which the control plane reaches the nodes.
    pub vnet_integration_subnet_id: Option<ResourceId>,
    /// How traffic leaves.
    pub outbound_type: OutboundType,
    /// Of the subnet.
    pub network_security_group_id: Option<ResourceId>,
    /// Under what the operators act.
    pub operators: OperatorIdentities,
    /// Under what images are pulled from the owner's registry.
    pub container_registry_identity: Option<ResourceId>,
}

/// Under which identity each operator acts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorIdentities {
    /// In the control plane, by operator.
    pub control_plane: BTreeMap<String, ResourceId>,
    /// In the cluster, by operator.
    pub data_plane: BTreeMap<String, ResourceId>,
    /// Of the service itself.
    pub service: Option<ResourceId>,
}

/// How node pools may grow together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Autoscaling {
    /// Nodes of all pools; 0 for the usual limit.
    pub max_nodes_total: i32,
    /// What pods are granted when a node is given up.
    pub max_pod_grace_period_seconds: i32,
    /// How long a node may take to come.
    pub max_node_provision_time_seconds: i32,
    /// Pods below this priority do not cause growth.
    pub pod_priority_threshold: i32,
}

/// How the cluster's state is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Etcd {
    /// With a key of the customer's; with the platform's own if absent.
    pub customer_key: Option<CustomerKey>,
}

/// A key of the customer's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomerKey {
    /// How it encrypts.
    pub encryption_type: EncryptionType,
    /// What keeps it.
    pub vault_type: KeyVaultType,
    /// The vault's name.
    pub vault_name: String,
    /// Who may reach the vault.
    pub visibility: Visibility,
    /// The key's name.
    pub name: String,
    /// The key's version.
    pub version: String,
}

/// Another place for the images of a registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageDigestMirror {
    /// What images are named by.
    pub source: String,
    /// Where they are taken from.
    pub mirrors: Vec<String>,
}

/// What was observed of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// What it is at.
    pub provisioning_state: ProvisioningState,
    /// The zone its host names are in.
    pub base_domain: Option<String>,
    /// Where its API server answers.
    pub api_url: Option<String>,
    /// Where its web console answers.
    pub console_url: Option<String>,
    /// Who issues its service accounts' tokens.
    pub issuer_url: Option<String>,
    /// The versions its control plane runs.
    pub active_versions: Vec<String>,
    /// What was observed otherwise.
    pub conditions: Vec<Condition>,
}

// === impl ===

impl Default for VersionProfile {
    fn default() -> Self {
        Self { id: None, channel_group: "stable".to_owned() }
    }
}

impl Default for Network {
    fn default() -> Self {
        Self {
            network_type: NetworkType::default(),
            pod_cidr: "10.128.0.0/14".to_owned(),
            service_cidr: "172.30.0.0/16".to_owned(),
            machine_cidr: "10.0.0.0/16".to_owned(),
            host_prefix: 23,
        }
    }
}

impl Default for Autoscaling {
    fn default() -> Self {
        Self {
            max_nodes_total: 0,
            max_pod_grace_period_seconds: 600,
            max_node_provision_time_seconds: 900,
            pod_priority_threshold: -10,
        }
    }
}

impl Default for ClusterStatus {
    fn default() -> Self {
        Self {
            provisioning_state: ProvisioningState::Accepted,
            base_domain: None,
            api_url: None,
            console_url: None,
            issuer_url: None,
            active_versions: Vec::new(),
            conditions: Vec::new(),
        }
    }
}
