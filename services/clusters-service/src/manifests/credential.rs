//! What asks the signer of a hosted cluster for a certificate, and what has the signer replaced.
//!
//! No key is in them: what is sent is a request, and what comes back is a certificate.

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilothouse_crds::{
    CertificateRevocationRequest, CertificateRevocationRequestSpec, CertificateSigningRequestApproval,
    CertificateSigningRequestApprovalSpec, ManifestConfig, ResourceIdentifier, SignerClass,
};
use serde_json::Value;

use super::{
    AUTHORITIES_FEEDBACK, CERTIFICATE_FEEDBACK, Names, NotWritten, REVOCATION_FEEDBACK, SERVER_FEEDBACK,
    SERVER_NAME_FEEDBACK, condition_paths, config, metadata, path,
};
use crate::record::{ClusterRecord, CredentialRecord, Revocation};

const GROUP: &str = "certificates.hypershift.openshift.io";

/// The request, and that it is to be granted.
pub(super) fn manifests(
    record: &ClusterRecord,
    credential: &CredentialRecord,
    names: &Names,
) -> Result<Vec<Value>, NotWritten> {
    let name = name(credential);
    let namespace = names.control_plane();
    let request = CertificateSigningRequest {
        metadata: metadata(&name, record, &credential.origin),
        spec: CertificateSigningRequestSpec {
            request: ByteString(credential.request.clone().into_bytes()),
            signer_name: format!(
                "hypershift.openshift.io/{namespace}-{}.customer-break-glass",
                names.hosted_cluster
            ),
            usages: Some(vec!["client auth".to_owned()]),
            expiration_seconds: i32::try_from(credential.lifetime().as_secs()).ok(),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    };
    let mut approval =
        CertificateSigningRequestApproval::new(&name, CertificateSigningRequestApprovalSpec::default());
    approval.metadata =
        ObjectMeta { namespace: Some(namespace), ..metadata(&name, record, &credential.origin) };
    Ok(vec![serde_json::to_value(request)?, serde_json::to_value(approval)?])
}

pub(super) fn feedback(credential: &CredentialRecord, names: &Names) -> Vec<ManifestConfig> {
    let name = name(credential);
    let mut of_request = condition_paths(&["Approved", "Denied", "Failed"]);
    of_request.push(path(CERTIFICATE_FEEDBACK, ".status.certificate"));
    let mut of_approval = condition_paths(&["Issued"]);
    of_approval.push(path(SERVER_FEEDBACK, ".status.server"));
    of_approval.push(path(SERVER_NAME_FEEDBACK, ".status.tlsServerName"));
    of_approval.push(path(AUTHORITIES_FEEDBACK, ".status.certificateAuthorities"));
    let request = ResourceIdentifier {
        group: "certificates.k8s.io".to_owned(),
        resource: "certificatesigningrequests".to_owned(),
        name: name.clone(),
        namespace: String::new(),
    };
    let approval = ResourceIdentifier {
        group: GROUP.to_owned(),
        resource: "certificatesigningrequestapprovals".to_owned(),
        name,
        namespace: names.control_plane(),
    };
    vec![config(request, of_request), config(approval, of_approval)]
}

/// That everything the signer has signed is to be worthless.
pub(super) fn revocation(
    record: &ClusterRecord,
    revocation: &Revocation,
    names: &Names,
) -> Result<(Value, ManifestConfig), NotWritten> {
    let name = format!("revocation-{}", revocation.id);
    let spec = CertificateRevocationRequestSpec { signer_class: SignerClass::CustomerBreakGlass };
    let mut request = CertificateRevocationRequest::new(&name, spec);
    request.metadata = ObjectMeta {
        namespace: Some(names.control_plane()),
        ..metadata(&name, record, record.latest_origin())
    };
    let mut paths = condition_paths(&[
        "RootCertificatesRegenerated",
        "NewCertificatesTrusted",
        "PreviousCertificatesRevoked",
    ]);
    paths.push(path(REVOCATION_FEEDBACK, ".status.revocationTimestamp"));
    let identifier = ResourceIdentifier {
        group: GROUP.to_owned(),
        resource: "certificaterevocationrequests".to_owned(),
        name,
        namespace: names.control_plane(),
    };
    Ok((serde_json::to_value(request)?, config(identifier, paths)))
}

fn name(credential: &CredentialRecord) -> String {
    format!("system-admin-credential-{}", credential.credential.id)
}
