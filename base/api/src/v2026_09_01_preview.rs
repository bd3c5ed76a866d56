//! `2026-09-01-preview`: whoever asks for a credential brings a request for a certificate, and keeps the key.

mod credential;

pub(crate) use self::credential::CredentialRequest;
pub(crate) use crate::v2026_06_30_preview::{
    Cluster, Credential, ExternalAuth, NodePool, OpenShiftVersion, RoleSet,
};
