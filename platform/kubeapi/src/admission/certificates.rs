//! Who may say yes to a request for a certificate, and what nobody may ask for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_pki::SigningRequest;
use serde_json::Value;

use super::nodes::Change;
use super::text;
use crate::authentication::User;
use crate::authorization::{Attributes, ResourceAttributes};
use crate::server::Server;
use crate::status::Failure;

const GROUP: &str = "certificates.k8s.io";
/// Its certificates let their owner in here.
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// Whether this user may write this to a request.
pub(super) fn admit(server: &Server, user: &User, change: &Change<'_>) -> Result<(), Failure> {
    let Change { resource, subresource, new, old } = *change;
    let name = text(new, "/metadata/name");
    match (subresource, old) {
        (None, None) if text(new, "/spec/signerName") == CLIENTS => {
            not_for_everything(new).map_err(|why| Failure::forbidden(resource, name, why))
        }
        (Some("approval"), Some(old)) => permitted(server, user, "approve", change, old),
        (Some("status"), Some(old)) if old["status"]["certificate"] != new["status"]["certificate"] => {
            permitted(server, user, "sign", change, old)
        }
        _ => Ok(()),
    }
}

/// Nobody becomes an administrator by asking. What cannot be read cannot be trusted not to.
fn not_for_everything(request: &Value) -> Result<(), String> {
    let pem = STANDARD.decode(text(request, "/spec/request")).unwrap_or_default();
    match SigningRequest::from_pem(&pem) {
        Ok(parsed) if parsed.subject().organizations().iter().any(|group| group == MASTERS) => {
            Err(format!("use of {CLIENTS} signer with {MASTERS} group is not allowed"))
        }
        Ok(_) => Ok(()),
        // That is said of the object itself, in other words.
        Err(pilothouse_pki::Error::Missing { .. }) => Ok(()),
        Err(error) => Err(format!("failed to parse CSR: {error}")),
    }
}

/// Signers are permitted by name, or all of a domain at once.
fn permitted(
    server: &Server,
    user: &User,
    verb: &str,
    change: &Change<'_>,
    old: &Value,
) -> Result<(), Failure> {
    let signer = text(old, "/spec/signerName");
    let domain = signer.split_once('/').map_or(signer, |(domain, _)| domain);
    let may = |name: &str| {
        let attributes = Attributes::Resource(ResourceAttributes {
            verb,
            group: GROUP,
            resource: "signers",
            name: Some(name),
            ..ResourceAttributes::default()
        });
        server.authorizer.allows(server.storage.cache(), user, &attributes)
    };
    if may(signer) || may(&format!("{domain}/*")) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(Failure::forbidden(change.resource, text(old, "/metadata/name"), why))
}
