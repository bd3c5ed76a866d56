use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Reference;

/// A management cluster that hosts clusters, how it is reached, and how it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvisionShard {
    /// Always `ProvisionShard`.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// Its path.
    pub href: String,
    /// What an operator wants of it.
    pub status: ProvisionShardStatus,
    /// `shared`: it hosts clusters of many customers.
    pub topology: String,
    /// Where it is.
    pub region: Reference,
    /// Always `azure`.
    pub cloud_provider: Reference,
    /// What belongs to it in the cloud.
    pub azure_shard: AzureShard,
    /// How manifests get to it.
    pub maestro_config: MaestroConfig,
    /// The namespace of `ManifestWork`s that its own agent applies to itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub work_namespace: String,
    /// When it was first known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    /// How many clusters it may have.
    #[serde(default)]
    pub capacity: u32,
    /// How many it has, those that are being deleted included.
    #[serde(default)]
    pub clusters: u32,
    /// Whether it answers.
    #[serde(default)]
    pub health: ShardHealth,
}

/// What an operator wants of a management cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProvisionShardStatus {
    /// It takes new clusters.
    #[default]
    Active,
    /// It takes no new ones; those it has go on as before.
    Maintenance,
    /// It is not expected to answer at all.
    Offline,
    /// A status that this build does not know.
    #[serde(other)]
    Unknown,
}

/// Whether a management cluster answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShardHealth {
    /// The verdict.
    pub state: ShardHealthState,
    /// When it last carried out what it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heard: Option<Timestamp>,
    /// What was seen, in words.
    pub description: String,
}

/// The verdict on a management cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ShardHealthState {
    /// Nobody has asked it, or the answer is still on its way.
    #[default]
    Unknown,
    /// It does what it is asked.
    Healthy,
    /// It has not answered in time.
    Unresponsive,
}

/// A management cluster as it is made known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NewProvisionShard {
    /// Its id; that of its consumer unless given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// What is wanted of it; that it takes clusters unless given.
    pub status: ProvisionShardStatus,
    /// `shared`, which is the only topology there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// The service's own region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Reference>,
    /// Always `azure`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_provider: Option<Reference>,
    /// How many clusters it may have; the service's default unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// The namespace of `ManifestWork`s; `local-cluster` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work_namespace: Option<String>,
    /// What belongs to it in the cloud.
    pub azure_shard: AzureShard,
    /// How manifests get to it; the consumer's name is required.
    pub maestro_config: MaestroConfig,
}

/// What of a management cluster is to be another from now on. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProvisionShardUpdate {
    /// What is wanted of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ProvisionShardStatus>,
    /// How many clusters it may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
}

/// What belongs to a shard in the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AzureShard {
    /// The management cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aks_management_cluster_resource_id: Option<String>,
    /// The zone that its clusters' zones are delegated from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_dns_zone_resource_id: Option<String>,
    /// Where customers' secrets are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cx_secrets_key_vault_url: Option<String>,
    /// The client id of the identity that reads them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cx_secrets_key_vault_managed_identity_client_id: Option<String>,
    /// Where customers' managed identities are. Its name ends with the number of the management cluster.
    pub cx_managed_identities_key_vault_url: String,
}

/// How manifests get to a management cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MaestroConfig {
    /// The management cluster's name at Maestro.
    pub consumer_name: String,
    /// Maestro's REST API.
    pub rest_api_config: Endpoint,
    /// Maestro's gRPC API.
    pub grpc_api_config: Endpoint,
}

/// Where something is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Endpoint {
    /// Its address.
    pub url: String,
}
