use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The ARM resource a cluster stands for, and what it may use of the customer's. Ids and names are kept in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Azure {
    /// The customer's subscription.
    pub subscription_id: String,
    /// The group the resource is in.
    pub resource_group_name: String,
    /// The resource's name.
    pub resource_name: String,
    /// The directory of the subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// The group for what the cluster makes; it is made and deleted with the cluster.
    pub managed_resource_group_name: String,
    /// The customer's subnet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet_resource_id: Option<String>,
    /// The customer's network security group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_security_group_resource_id: Option<String>,
    /// The subnet, in the same network, through which the control plane reaches the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnet_integration_subnet_resource_id: Option<String>,
    /// Who issues the tokens of the cluster's workloads. Read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc_issuer_url: Option<String>,
    /// Where the nodes may fetch images with an identity of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_registry: Option<ContainerRegistry>,
    /// How the nodes reach the internet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_outbound_connectivity: Option<NodesOutboundConnectivity>,
    /// How what the cluster stores is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_encryption: Option<EtcdEncryption>,
    /// Whose identities the operators use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operators_authentication: Option<OperatorsAuthentication>,
}

/// Where nodes may fetch images with an identity of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerRegistry {
    /// As whom.
    pub credentials: ContainerRegistryCredentials,
}

/// As whom nodes fetch images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerRegistryCredentials {
    /// Always `ManagedIdentity`.
    #[serde(rename = "type")]
    pub credentials_type: String,
    /// The identity.
    pub managed_identity: ManagedIdentity,
}

/// How nodes reach the internet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodesOutboundConnectivity {
    /// `load_balancer`.
    pub outbound_type: String,
}

/// How what a cluster stores is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EtcdEncryption {
    /// The encryption of the values.
    pub data_encryption: DataEncryption,
}

/// Whose key encrypts the values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DataEncryption {
    /// `customer_managed` or `platform_managed`.
    pub key_management_mode: String,
    /// The customer's key, if it is theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customer_managed: Option<CustomerManaged>,
}

/// A key of the customer's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomerManaged {
    /// Always `kms`.
    pub encryption_type: String,
    /// Where the key is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kms: Option<Kms>,
}

/// A key vault with a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kms {
    /// `public` or `private`: how the vault is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility: Option<String>,
    /// `key_vault` or `managed_hsm`; the former unless given. Ours: the original has no word for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_vault_type: Option<String>,
    /// The key.
    pub active_key: ActiveKey,
}

/// A key in a vault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActiveKey {
    /// The vault.
    pub key_vault_name: String,
    /// The key.
    pub key_name: String,
    /// Its version: the only part that can be changed later.
    pub key_version: String,
}

/// Whose identities the operators use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperatorsAuthentication {
    /// Identities of the customer's.
    pub managed_identities: ManagedIdentities,
}

/// Identities of the customer's, by the operators that use them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ManagedIdentities {
    /// Where the credentials of the control plane's identities are fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_identities_data_plane_identity_url: Option<String>,
    /// Operators of the control plane.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub control_plane_operators_managed_identities: BTreeMap<String, ManagedIdentity>,
    /// Operators on the nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub data_plane_operators_managed_identities: BTreeMap<String, ManagedIdentity>,
    /// The service itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_managed_identity: Option<ManagedIdentity>,
}

/// An identity of the customer's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ManagedIdentity {
    /// The identity's ARM resource.
    pub resource_id: String,
    /// Its application id, once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Its id in the directory, once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal_id: Option<String>,
}

impl Azure {
    /// The ARM resource id of the cluster, in lower case: what makes it unique.
    pub fn resource_id(&self) -> String {
        format!(
            "/subscriptions/{}/resourcegroups/{}/providers/microsoft.redhatopenshift/hcpopenshiftclusters/{}",
            self.subscription_id, self.resource_group_name, self.resource_name
        )
        .to_lowercase()
    }
}
