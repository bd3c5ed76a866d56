use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ClusterId, ExternalAuthId, Secret};

/// An issuer of tokens that a cluster's API is to trust, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewExternalAuth {
    /// Its ARM name in lower case.
    pub id: ExternalAuthId,
    /// Who issues the tokens.
    #[serde(default)]
    pub issuer: TokenIssuer,
    /// Parts of the cluster that fetch such tokens themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<TokenClient>,
    /// What the tokens say of whoever carries them.
    #[serde(default)]
    pub claim: Claim,
    /// Free-form; see [`crate::properties`] for the names with a meaning.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// What of an external auth is to be another from now on. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExternalAuthUpdate {
    /// Who issues the tokens: all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<TokenIssuer>,
    /// Parts of the cluster that fetch such tokens themselves: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<Vec<TokenClient>>,
    /// What the tokens say: all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// Added to what is there; see [`crate::properties`] for the names with a meaning.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// An issuer of tokens that a cluster's API trusts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalAuth {
    /// Always `ExternalAuth`.
    pub kind: String,
    /// Its id within the cluster.
    pub id: ExternalAuthId,
    /// Its path.
    pub href: String,
    /// The cluster it belongs to.
    pub cluster_id: ClusterId,
    /// When it was asked for.
    pub creation_timestamp: Timestamp,
    /// Who issues the tokens.
    #[serde(default)]
    pub issuer: TokenIssuer,
    /// Parts of the cluster that fetch such tokens themselves.
    #[serde(default)]
    pub clients: Vec<TokenClient>,
    /// What the tokens say of whoever carries them.
    #[serde(default)]
    pub claim: Claim,
    /// Free-form.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Where it stands and why.
    pub status: ExternalAuthStatus,
}

/// Who issues tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenIssuer {
    /// Where it is found; the tokens name it.
    pub url: String,
    /// Whom the tokens are for: one of these.
    pub audiences: Vec<String>,
    /// Who signed the issuer's own certificate, if it is nobody whom everybody trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

/// A part of the cluster that fetches tokens itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenClient {
    /// As whom it is known to the issuer.
    pub id: String,
    /// Which part.
    pub component: TokenClientComponent,
    /// What it asks for beyond the usual.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_scopes: Vec<String>,
    /// Whether it can keep a secret.
    #[serde(rename = "type")]
    pub client_type: TokenClientType,
    /// How it proves who it is. Never answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
}

/// A part of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenClientComponent {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

/// Whether a client can keep a secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenClientType {
    /// It can.
    #[default]
    Confidential,
    /// It cannot.
    Public,
}

/// What tokens say of whoever carries them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// Who they are.
    pub mappings: ClaimMappings,
    /// What must be said for a token to count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub validation_rules: Vec<ClaimRule>,
}

/// Who the carrier of a token is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimMappings {
    /// Their name.
    pub username: UsernameClaim,
    /// Their groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupsClaim>,
}

/// Where the name of a token's carrier is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsernameClaim {
    /// The claim.
    pub claim: String,
    /// What is put before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// When it is.
    pub prefix_policy: PrefixPolicy,
}

/// When a name is given a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PrefixPolicy {
    /// The issuer's address, unless the claim is `email`.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// What is said.
    Prefix,
    /// Never.
    NoPrefix,
}

/// Where the groups of a token's carrier are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupsClaim {
    /// The claim.
    pub claim: String,
    /// What is put before each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// What must be said for a token to count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimRule {
    /// The claim.
    pub claim: String,
    /// What it must be.
    pub required_value: String,
}

/// Where an external auth stands and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalAuthStatus {
    /// The state, and since when.
    pub state: ExternalAuthState,
    /// What it is waiting for, or what happened last, in words.
    #[serde(default)]
    pub message: String,
}

/// An external auth's state, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalAuthState {
    /// The state.
    pub value: ExternalAuthStateValue,
    /// When it last became another.
    pub last_updated_timestamp: Timestamp,
}

/// Which life an external auth is in. The original knows `ready`, `uninstalling` and `error` only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExternalAuthStateValue {
    /// Accepted and kept; nothing was done yet.
    #[default]
    Validating,
    /// It is on its way to its management cluster.
    Installing,
    /// It was handed over and taken.
    Ready,
    /// A change is on its way.
    Updating,
    /// It failed; the message says why.
    Error,
    /// It is being deleted.
    Uninstalling,
    /// A state that this build does not know.
    #[serde(other)]
    Unknown,
}

impl NewExternalAuth {
    /// One with nothing but its id.
    pub fn new(id: ExternalAuthId) -> Self {
        Self {
            id,
            issuer: TokenIssuer::default(),
            clients: Vec::new(),
            claim: Claim::default(),
            properties: BTreeMap::new(),
        }
    }
}
