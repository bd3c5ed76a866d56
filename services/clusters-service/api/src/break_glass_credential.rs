use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{BreakGlassCredentialId, ClusterId, Secret};

/// A credential for the administrator of a cluster, as it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NewBreakGlassCredential {
    /// As whom; chosen by the service unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// What is to be signed, in PEM: the key stays with whoever asks, and the kubeconfig has none. Without one the service
    /// makes a key and puts it there. Ours: the original knows only the latter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_signing_request: Option<String>,
    /// Until when it is to open anything: ten minutes ahead at least, and 24 hours at most, which is what it has unless given.
    /// It ends later by as long as it takes to be signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration_timestamp: Option<Timestamp>,
    /// Free-form; see [`crate::properties`] for the names with a meaning.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// A credential for the administrator of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakGlassCredential {
    /// Always `BreakGlassCredential`.
    pub kind: String,
    /// Its id within the cluster.
    pub id: BreakGlassCredentialId,
    /// Its path.
    pub href: String,
    /// The cluster it opens.
    pub cluster_id: ClusterId,
    /// As whom.
    #[serde(default)]
    pub username: String,
    /// Until when it opens anything; known once it is issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration_timestamp: Option<Timestamp>,
    /// Since when it does not any more, if it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_timestamp: Option<Timestamp>,
    /// How to get in, once it is issued. Only the answer to a GET of this one credential has it: no list, no watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<Secret>,
    /// Where it stands.
    #[serde(default)]
    pub status: BreakGlassCredentialStatus,
    /// What it is waiting for, or why it failed, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Free-form.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// Which life a credential is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BreakGlassCredentialStatus {
    /// Accepted and kept.
    #[default]
    Created,
    /// It can be fetched and opens the cluster.
    Issued,
    /// Its time is over.
    Expired,
    /// It is being revoked.
    AwaitingRevocation,
    /// It opens nothing any more.
    Revoked,
    /// It will never be issued; the message says why.
    Failed,
    /// A state that this build does not know.
    #[serde(other)]
    Unknown,
}

impl BreakGlassCredential {
    /// The same without the way in, for lists and watches.
    pub fn without_kubeconfig(self) -> Self {
        Self { kubeconfig: None, ..self }
    }
}
