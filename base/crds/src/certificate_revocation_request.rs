//! `CertificateRevocationRequest`: that everything a signer of a hosted cluster has signed is to be worthless.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, schema};

/// Which signer.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "certificates.hypershift.openshift.io",
    version = "v1alpha1",
    kind = "CertificateRevocationRequest",
    plural = "certificaterevocationrequests",
    shortname = "crr",
    shortname = "crrs",
    namespaced,
    status = "CertificateRevocationRequestStatus",
    derive = "PartialEq",
    doc = "That everything a signer of the hosted cluster in whose namespace this is has signed is to be worthless.",
    printcolumn = r#"{"name": "Revoked", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"PreviousCertificatesRevoked\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct CertificateRevocationRequestSpec {
    /// Whose certificates are revoked.
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("signerClass")))]
    pub signer_class: SignerClass,
}

/// A signer that people are let in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SignerClass {
    /// The one for whoever the cluster belongs to.
    #[serde(rename = "customer-break-glass")]
    CustomerBreakGlass,
    /// The one for whoever runs it.
    #[serde(rename = "sre-break-glass")]
    SreBreakGlass,
}

/// How far a revocation is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateRevocationRequestStatus {
    /// What was signed before this moment is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_time")]
    pub revocation_timestamp: Option<Time>,
    /// What was observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
