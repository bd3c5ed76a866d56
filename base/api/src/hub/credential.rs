use std::fmt;

use jiff::Timestamp;

/// What is asked for with `requestAdminCredential`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialRequest {
    /// What is to be signed, as PEM; without one the service makes the key too.
    pub certificate_signing_request: Option<String>,
}

/// A way into a cluster as its administrator.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// A secret.
    pub kubeconfig: String,
    /// Until when it is accepted.
    pub expiration: Timestamp,
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credential").field("expiration", &self.expiration).finish_non_exhaustive()
    }
}
