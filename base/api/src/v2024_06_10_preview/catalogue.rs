//! What is only looked at.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hub;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenShiftVersionProperties {
    /// The channel it comes from.
    channel_group: String,
    /// Whether clusters may be made of it now.
    // The first version leaves it out when it is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    /// Until when it is looked after, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    end_of_life_timestamp: Option<Timestamp>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RoleSetProperties {
    /// What the operators in the control plane need.
    control_plane_operators: Vec<Operator>,
    /// What the operators in the cluster need.
    data_plane_operators: Vec<Operator>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Operator {
    /// The operator.
    name: String,
    /// When it needs an identity at all.
    required: hub::RoleRequirement,
    /// What its identity must be assigned.
    role_definitions: Vec<RoleDefinition>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RoleDefinition {
    /// Its name.
    name: String,
    /// Its id.
    resource_id: String,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CredentialProperties {
    /// How to reach the cluster as its administrator.
    #[schemars(extend("x-ms-secret" = true))]
    kubeconfig: String,
    /// Until when that is accepted.
    expiration_timestamp: Timestamp,
}

impl OpenShiftVersionProperties {
    pub(crate) fn write(version: &hub::OpenShiftVersion) -> Self {
        let hub::OpenShiftVersion { id: _, channel_group, enabled, end_of_life } = version.clone();
        Self { channel_group, enabled: Some(enabled), end_of_life_timestamp: end_of_life }
    }
}

impl RoleSetProperties {
    pub(crate) fn write(set: &hub::OperatorRoleSet) -> Self {
        let hub::OperatorRoleSet { id: _, control_plane, data_plane } = set.clone();
        let operators = |roles: Vec<hub::OperatorRoles>| roles.into_iter().map(Operator::write).collect();
        Self {
            control_plane_operators: operators(control_plane),
            data_plane_operators: operators(data_plane),
        }
    }
}

impl Operator {
    fn write(roles: hub::OperatorRoles) -> Self {
        let hub::OperatorRoles { name, required, role_definitions } = roles;
        let definition = |hub::RoleDefinition { name, resource_id }| RoleDefinition { name, resource_id };
        Self { name, required, role_definitions: role_definitions.into_iter().map(definition).collect() }
    }
}

impl CredentialProperties {
    pub(crate) fn write(credential: &hub::Credential) -> Self {
        let hub::Credential { kubeconfig, expiration } = credential.clone();
        Self { kubeconfig, expiration_timestamp: expiration }
    }
}
