//! Letting people in for a day, and locking all of them out again.
//!
//! Every hosted cluster has a signer for nobody else's certificates. Whoever wants one makes a
//! `CertificateSigningRequest` for that signer, by name, and in the namespace of the control plane a
//! `CertificateSigningRequestApproval` of the same name, which only those can make whom the management cluster trusts
//! with the cluster. What was signed cannot be taken back one by one, so a `CertificateRevocationRequest` replaces the
//! signer itself, and everything it ever signed is worthless.
//!
//! * **Signed means let in.** Nothing is signed before every replica of the API server has been seen to let in what the
//!   signer signs.
//! * **Revoked means seen refused.** A revocation is done when a certificate of the signer of before has been shown to
//!   every replica, and every one has refused it while it let in one of the new signer. Until then the old signer's key
//!   is kept, to make that certificate with; then it is forgotten.
//! * **One thing after the other.** While a revocation is under way nothing is signed.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use pilothouse_crds::{CertificateRevocationRequest, SignerClass, is_condition_true};
use pilothouse_informer::ObjectKey;
use pilothouse_pki::{Authority, Bundle};
use serde_json::{Value, json};
use tracing::info;

use super::blueprint::Blueprint;
use super::manifests;
use super::payload::Payload;
use crate::caches::Caches;
use crate::error::Error;
use crate::names::API_SERVER;
use crate::secrets::{AUTHORITY_CERTIFICATE, AUTHORITY_KEY, Keyring, unusable, value};
use crate::signer::{self, Signer};

mod probe;
mod request;
mod tending;
#[cfg(test)]
mod tests;

pub(crate) use tending::Site;

/// The Secret of the signer.
pub(crate) const AUTHORITY: &str = "customer-system-admin-signer";
/// Says of a revocation that it is done.
pub(super) const REVOKED: &str = "PreviousCertificatesRevoked";
/// The signer of before, until its certificates have been seen refused.
const REVOKED_CERTIFICATE: &str = "revoked.crt";
const REVOKED_KEY: &str = "revoked.key";
/// The revocation that the signer was last replaced for.
const REVOCATION: &str = "revocation";

/// What is asked of the signer.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// It is to be there. A control plane that runs without one is not restarted for its sake before somebody needs it.
    make: bool,
    /// The revocation that is not done, by its unique id.
    revocation: Option<String>,
}

/// The signer.
pub(crate) struct BreakGlass {
    signer: Signer,
    /// Whose certificates have not been seen refused yet.
    revoked: Option<Authority>,
}

/// The name by which a certificate is asked of the signer of a hosted cluster.
pub(crate) fn signer_name(cluster: &ObjectKey, namespace: &str) -> String {
    format!("hypershift.openshift.io/{namespace}-{}.customer-break-glass", cluster.name)
}

// === impl Wanted ===

impl Wanted {
    pub(crate) fn of(caches: &Caches, blueprint: &Blueprint) -> Self {
        let namespace = &blueprint.namespace;
        let runs = caches.stateful_sets.get(&ObjectKey::namespaced(namespace, API_SERVER)).is_some();
        let revocation = under_way(caches, namespace);
        let asked = revocation.is_some() || !caches.approvals.list_in(namespace).is_empty();
        Self {
            make: !runs || asked || blueprint.payload == Payload::Upstream,
            revocation: revocation.and_then(|request| request.uid()),
        }
    }
}

/// The oldest revocation in a namespace that is not done.
fn under_way(caches: &Caches, namespace: &str) -> Option<std::sync::Arc<CertificateRevocationRequest>> {
    let all = caches.revocations.list_in(namespace).into_iter();
    let waiting = all.filter(|request| is_waiting(request));
    waiting.min_by_key(|request| (request.creation_timestamp().map(|made| made.0), request.name_any()))
}

fn is_waiting(request: &CertificateRevocationRequest) -> bool {
    let conditions = request.status.as_ref().map(|status| status.conditions.as_slice());
    request.spec.signer_class == SignerClass::CustomerBreakGlass
        && request.metadata.deletion_timestamp.is_none()
        && !is_condition_true(conditions.unwrap_or_default(), REVOKED)
}

// === impl BreakGlass ===

impl BreakGlass {
    /// The signer, made or replaced as is wanted.
    pub(crate) async fn ensure(
        keyring: &Keyring<'_>,
        blueprint: &Blueprint,
        wanted: &Wanted,
    ) -> Result<Option<Self>, Error> {
        if keyring.cached(AUTHORITY).is_none() && (!wanted.make || blueprint.lifetimes.is_frozen()) {
            return Ok(None);
        }
        let metadata = manifests::in_namespace(blueprint, AUTHORITY);
        let signer = Signer::ensure(keyring, metadata, &blueprint.lifetimes).await?;
        let Some(revocation) = wanted.revocation.as_ref().filter(|_| !blueprint.lifetimes.is_frozen()) else {
            let revoked = keyring.cached(AUTHORITY).map_or(Ok(None), |stored| revoked(&stored))?;
            return Ok(Some(Self { signer, revoked }));
        };
        // Asked rather than remembered: a signer is replaced once for a revocation.
        let stored = keyring.kept(AUTHORITY).await?;
        let stored = match replaces(&stored, revocation) {
            false => stored,
            true => {
                info!(namespace = keyring.namespace, revocation, "break-glass signer replaced");
                let data = retired(&stored, revocation, signer::replacement(keyring, AUTHORITY)?)?;
                change(keyring, &stored, &data).await?.into()
            }
        };
        Ok(Some(Self { signer: signer::read(&stored, keyring.clock.now())?, revoked: revoked(&stored)? }))
    }

    /// Whom API servers are to let in.
    pub(crate) fn trusted(&self) -> &Bundle {
        &self.signer.trusted
    }

    pub(crate) fn fingerprint(&self) -> String {
        let certificates = self.signer.trusted.certificates().iter();
        let fingerprints = certificates.map(|certificate| certificate.fingerprint().to_string());
        fingerprints.collect::<Vec<_>>().join(",")
    }

    /// When something has to be done about it.
    pub(crate) fn due(&self) -> Timestamp {
        self.signer.due
    }
}

/// Whether the signer in this Secret is the one that this revocation is about.
fn replaces(stored: &Secret, revocation: &str) -> bool {
    let recorded = stored.data.as_ref().and_then(|data| data.get(REVOCATION));
    recorded.is_none_or(|recorded| recorded.0 != revocation.as_bytes())
}

/// The change that puts a new signer in the place of the one that is there, which stays only to be refused.
fn retired(stored: &Secret, revocation: &str, mut replacement: Value) -> Result<Value, Error> {
    replacement[REVOKED_CERTIFICATE] = signer::text(value(stored, AUTHORITY_CERTIFICATE)?.to_vec());
    replacement[REVOKED_KEY] = signer::text(value(stored, AUTHORITY_KEY)?.to_vec());
    replacement[REVOCATION] = signer::text(revocation.as_bytes().to_vec());
    Ok(replacement)
}

/// The signer whose certificates have not been seen refused.
fn revoked(stored: &Secret) -> Result<Option<Authority>, Error> {
    if !stored.data.as_ref().is_some_and(|data| data.contains_key(REVOKED_KEY)) {
        return Ok(None);
    }
    let (certificate, key) = (value(stored, REVOKED_CERTIFICATE)?, value(stored, REVOKED_KEY)?);
    let authority = Authority::from_pem(certificate, key);
    authority.map(Some).map_err(|source| unusable(stored, REVOKED_KEY, Some(source)))
}

/// Changes the Secret of this version and no other.
async fn change(keyring: &Keyring<'_>, stored: &Secret, data: &Value) -> Result<Secret, Error> {
    let patch = json!({ "metadata": { "resourceVersion": stored.metadata.resource_version }, "data": data });
    let changed = keyring.api().patch(AUTHORITY, &PatchParams::default(), &Patch::Merge(patch)).await;
    changed.map_err(|error| {
        Error::management("change", format!("Secret {}/{AUTHORITY}", keyring.namespace), error)
    })
}

/// Forgets the signer of before.
async fn forget_revoked(keyring: &Keyring<'_>) -> Result<(), Error> {
    let stored = keyring.kept(AUTHORITY).await?;
    if revoked(&stored)?.is_none() {
        return Ok(());
    }
    let gone = json!({ REVOKED_CERTIFICATE: null, REVOKED_KEY: null });
    change(keyring, &stored, &gone).await.map(drop)
}
