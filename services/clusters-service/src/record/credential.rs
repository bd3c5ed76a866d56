//! A credential for a cluster's administrator as it is stored.
//!
//! The only secret in these documents is the key, where it was made here; it is sealed before it reaches the database,
//! and forgotten as soon as the credential opens nothing any more.

use jiff::Timestamp;
use pilothouse_clusters_service_api::{BreakGlassCredential, BreakGlassCredentialStatus, Secret};
use serde::{Deserialize, Serialize};

use super::{Origin, SCHEMA};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CredentialRecord {
    schema: u32,
    /// What the API shows. The kubeconfig is put together when it is asked for.
    pub(crate) credential: BreakGlassCredential,
    /// What asked for it.
    pub(crate) origin: Origin,
    /// When it was asked for.
    pub(crate) created_at: Timestamp,
    /// What is to be signed, PEM.
    pub(crate) request: String,
    /// The key, PEM; none if it stayed with whoever asked, and none once the credential is over.
    pub(crate) key: Option<Secret>,
    /// What came back.
    pub(crate) signed: Option<Signed>,
    /// Whether nothing of it is left on the management cluster.
    #[serde(default)]
    pub(crate) cleared: bool,
    /// Since when it opens nothing any more.
    #[serde(default)]
    pub(crate) over_since: Option<Timestamp>,
}

/// What a management cluster made of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Signed {
    /// The certificate and those above it, PEM.
    pub(crate) certificate: String,
    /// The URL of the API server.
    pub(crate) server: String,
    /// The name in that server's certificate, where it is not the host of the URL.
    pub(crate) tls_server_name: Option<String>,
    /// The authorities that may have signed that certificate, PEM.
    pub(crate) authorities: String,
}

/// That everything a cluster's signer has signed is to be worthless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Revocation {
    /// Tells it from all others of the cluster.
    pub(crate) id: String,
    /// Its time counts from here.
    pub(crate) requested_at: Timestamp,
    /// Every replica of the API server was seen to refuse what was signed before.
    pub(crate) done: bool,
}

impl CredentialRecord {
    pub(crate) fn new(
        credential: BreakGlassCredential,
        origin: Origin,
        request: String,
        key: Option<Secret>,
        now: Timestamp,
    ) -> Self {
        Self {
            schema: SCHEMA,
            credential,
            origin,
            created_at: now,
            request,
            key,
            signed: None,
            cleared: false,
            over_since: None,
        }
    }

    /// Whether it opens something, or may yet.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(
            self.credential.status,
            BreakGlassCredentialStatus::Created | BreakGlassCredentialStatus::Issued
        )
    }

    /// Whether its time is over.
    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.credential.expiration_timestamp.is_some_and(|end| end <= now)
    }

    /// It opens nothing from now on, so nothing that could is kept.
    pub(crate) fn end(
        &mut self,
        status: BreakGlassCredentialStatus,
        message: impl Into<String>,
        now: Timestamp,
    ) {
        self.credential.status = status;
        self.credential.message = message.into();
        self.key = None;
        self.signed = None;
        self.over_since = Some(now);
    }

    /// Whether a change from `before` is one that the controller has to act on, rather than its own.
    pub(crate) fn asks_for_work(&self, before: &Self) -> bool {
        let awaits =
            |record: &Self| record.credential.status == BreakGlassCredentialStatus::AwaitingRevocation;
        awaits(self) && !awaits(before)
    }
}
