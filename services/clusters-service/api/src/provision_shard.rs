use serde::{Deserialize, Serialize};

use crate::Reference;

/// A management cluster that hosts clusters, and how it is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvisionShard {
    /// Always `ProvisionShard`.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// Its path.
    pub href: String,
    /// `active`: it takes new clusters.
    pub status: String,
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
    /// Where customers' managed identities are. Its name ends with the number of the management cluster.
    pub cx_managed_identities_key_vault_url: String,
}

/// How manifests get to a management cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct Endpoint {
    /// Its address.
    pub url: String,
}
