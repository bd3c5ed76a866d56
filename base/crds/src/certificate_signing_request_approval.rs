//! `CertificateSigningRequestApproval`: that a request for a certificate of a hosted cluster's signer is to be granted.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Condition;

/// Nothing: the approval is of the `CertificateSigningRequest` of the same name.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "certificates.hypershift.openshift.io",
    version = "v1alpha1",
    kind = "CertificateSigningRequestApproval",
    plural = "certificatesigningrequestapprovals",
    shortname = "csra",
    shortname = "csras",
    namespaced,
    status = "CertificateSigningRequestApprovalStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "That the CertificateSigningRequest of this name is to be granted by the hosted cluster in whose namespace this is.",
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub struct CertificateSigningRequestApprovalSpec {}

/// What became of the request. Ours: the original's status is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateSigningRequestApprovalStatus {
    /// The URL of the API server that the certificate opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The name in that server's certificate, where it is not the host of the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    /// The authorities that may have signed that certificate, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authorities: Option<String>,
    /// What was observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
