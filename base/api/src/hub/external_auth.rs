use pilothouse_arm::{ProvisioningState, ResourceId, SystemData};
use serde::{Deserialize, Serialize};

use super::choice::{ClientType, PrefixPolicy};
use super::status::Condition;

/// An identity provider whose tokens a cluster accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalAuth {
    /// Its name among all resources, below its cluster's, as it was spelled last.
    pub id: ResourceId,
    /// Who made and changed it.
    pub system_data: SystemData,
    /// What its owner asked for.
    pub spec: ExternalAuthSpec,
    /// What was observed.
    pub status: ExternalAuthStatus,
}

/// What the owner of a cluster asked its API server to accept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalAuthSpec {
    /// Who issues the tokens.
    pub issuer: TokenIssuer,
    /// Which programs log in with it.
    pub clients: Vec<TokenClient>,
    /// What is read from a token.
    pub claims: Claims,
}

/// Who issues tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenIssuer {
    /// Its address, which every token names.
    pub url: String,
    /// For whom a token may be issued.
    pub audiences: Vec<String>,
    /// The certificates to know its address by, as PEM; the system's if absent.
    pub ca: Option<String>,
}

/// A program that logs its users in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenClient {
    /// The component's name.
    pub component_name: String,
    /// The component's namespace.
    pub component_namespace: String,
    /// What the issuer calls it.
    pub client_id: String,
    /// What it asks for beyond the usual.
    pub extra_scopes: Vec<String>,
    /// Whether it can keep a secret.
    pub client_type: ClientType,
}

/// What is read from a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The user's name.
    pub username: UsernameClaim,
    /// The user's groups, if they are read.
    pub groups: Option<GroupsClaim>,
    /// What must be in it.
    pub validation_rules: Vec<RequiredClaim>,
}

/// Where the user's name is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsernameClaim {
    /// The claim.
    pub claim: String,
    /// Whether something is put before it.
    pub prefix_policy: PrefixPolicy,
    /// What is put before it; present if and only if the policy is to.
    pub prefix: Option<String>,
}

/// Where the user's groups are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupsClaim {
    /// The claim.
    pub claim: String,
    /// What is put before each.
    pub prefix: Option<String>,
}

/// A claim that every token must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequiredClaim {
    /// The claim.
    pub claim: String,
    /// Its value.
    pub required_value: String,
}

/// What was observed of an external authentication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalAuthStatus {
    /// What it is at.
    pub provisioning_state: ProvisioningState,
    /// What was observed otherwise.
    pub conditions: Vec<Condition>,
}

impl Default for ExternalAuthStatus {
    fn default() -> Self {
        Self { provisioning_state: ProvisioningState::Accepted, conditions: Vec::new() }
    }
}
