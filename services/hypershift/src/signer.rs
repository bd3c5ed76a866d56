//! Authorities that outlive their certificates.
//!
//! Whoever trusts an authority has to hear of its successor before the first certificate of that one is shown to them. So
//! a new authority is announced when the old one is due: from then on everybody is told to trust both, and the old one
//! goes on signing. When a tenth of the old one's life is left, the new one takes over, and the old one stays trusted
//! until it expires.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use pilothouse_pki::{Authority, AuthorityRequest, Bundle, Certificate, Subject};
use serde_json::{Value, json};
use tracing::info;

use crate::apply;
use crate::error::Error;
use crate::secrets::{AUTHORITY_CERTIFICATE, AUTHORITY_KEY, Keyring, Lifetimes, secret, unusable, value};

const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
const PREVIOUS_CERTIFICATE: &str = "previous.crt";

/// An authority, and everybody who is to be trusted in its place.
pub(crate) struct Signer {
    pub(crate) authority: Authority,
    /// Itself, its successor if there is one, and its predecessor while that has not expired.
    pub(crate) trusted: Bundle,
    /// When something has to be done about it.
    pub(crate) due: Timestamp,
}

/// What of an authority is kept.
struct Kept {
    current: Authority,
    next: Option<Authority>,
    previous: Option<Certificate>,
}

// === impl Signer ===

impl Signer {
    /// The signer of this Secret, made if there is none, and taken one step further if it is time for that.
    pub(crate) async fn ensure(
        keyring: &Keyring<'_>,
        metadata: ObjectMeta,
        lifetimes: &Lifetimes,
    ) -> Result<Self, Error> {
        let name = metadata.name.clone().unwrap_or_default();
        let stored = match keyring.cached(&name) {
            Some(cached) => cached,
            None if lifetimes.is_frozen() => keyring.kept(&name).await?,
            None => {
                let made = make(keyring, &name)?;
                let data = [
                    (AUTHORITY_CERTIFICATE, made.identity().chain_pem().into_bytes()),
                    (AUTHORITY_KEY, made.identity().key().to_pem().as_bytes().to_vec()),
                ];
                apply::ensure_exists(&keyring.api(), &secret(metadata, "Opaque", data)).await?
            }
        };
        let mut kept = Kept::read(&stored)?;
        let now = keyring.clock.now();
        if !lifetimes.is_frozen() {
            let current = kept.current.certificate();
            let change = match &kept.next {
                None if now >= current.renew_at() => {
                    info!(secret = name, namespace = keyring.namespace, "authority announces its successor");
                    let next = make(keyring, &name)?;
                    let change = json!({
                        NEXT_CERTIFICATE: text(next.identity().chain_pem().into_bytes()),
                        NEXT_KEY: text(next.identity().key().to_pem().as_bytes().to_vec()),
                    });
                    kept.next = Some(next);
                    Some(change)
                }
                Some(next) if now >= takes_over_at(current) => {
                    info!(
                        secret = name,
                        namespace = keyring.namespace,
                        "authority replaced by its successor"
                    );
                    Some(json!({
                        AUTHORITY_CERTIFICATE: text(next.identity().chain_pem().into_bytes()),
                        AUTHORITY_KEY: text(next.identity().key().to_pem().as_bytes().to_vec()),
                        PREVIOUS_CERTIFICATE: text(current.to_pem().into_bytes()),
                        NEXT_CERTIFICATE: Value::Null,
                        NEXT_KEY: Value::Null,
                    }))
                }
                _ => None,
            };
            if let Some(data) = change {
                // Of this version and no other: two that replace an authority would leave certificates of a third.
                let patch = json!({
                    "metadata": { "resourceVersion": stored.metadata.resource_version }, "data": data,
                });
                let patched = keyring.api().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
                let patched = patched.map_err(|error| {
                    Error::management("change", format!("Secret {}/{name}", keyring.namespace), error)
                })?;
                kept = Kept::read(&patched)?;
            }
        }
        kept.into_signer(now, &stored)
    }
}

/// Whom to trust by this Secret, as it is now.
pub(crate) fn read(stored: &Secret, now: Timestamp) -> Result<Signer, Error> {
    Kept::read(stored)?.into_signer(now, stored)
}

/// The change of a signer's Secret after which it is another, and nobody is told to trust the one before any more.
///
/// # Errors
///
/// If no authority can be made.
pub(crate) fn replacement(keyring: &Keyring<'_>, name: &str) -> Result<Value, Error> {
    let made = make(keyring, name)?;
    Ok(json!({
        AUTHORITY_CERTIFICATE: text(made.identity().chain_pem().into_bytes()),
        AUTHORITY_KEY: text(made.identity().key().to_pem().as_bytes().to_vec()),
        PREVIOUS_CERTIFICATE: Value::Null,
        NEXT_CERTIFICATE: Value::Null,
        NEXT_KEY: Value::Null,
    }))
}

// === impl Kept ===

impl Kept {
    fn read(stored: &Secret) -> Result<Self, Error> {
        let pair = |certificate, key| {
            let (certificate, key_text) = (value(stored, certificate)?, value(stored, key)?);
            Authority::from_pem(certificate, key_text).map_err(|source| unusable(stored, key, Some(source)))
        };
        let has = |key: &str| stored.data.as_ref().is_some_and(|data| data.contains_key(key));
        let previous = match has(PREVIOUS_CERTIFICATE) {
            true => Some(
                Certificate::from_pem(value(stored, PREVIOUS_CERTIFICATE)?)
                    .map_err(|source| unusable(stored, PREVIOUS_CERTIFICATE, Some(source)))?,
            ),
            false => None,
        };
        Ok(Self {
            current: pair(AUTHORITY_CERTIFICATE, AUTHORITY_KEY)?,
            next: has(NEXT_CERTIFICATE).then(|| pair(NEXT_CERTIFICATE, NEXT_KEY)).transpose()?,
            previous,
        })
    }

    fn into_signer(self, now: Timestamp, stored: &Secret) -> Result<Signer, Error> {
        let Self { current, next, previous } = self;
        let certificate = current.certificate();
        let due = match next {
            None => certificate.renew_at(),
            Some(_) => takes_over_at(certificate),
        };
        let previous = previous.filter(|previous| previous.not_after() > now);
        let others = next.iter().map(|next| next.certificate().clone()).chain(previous);
        let mut trusted = Bundle::new();
        for certificate in std::iter::once(certificate.clone()).chain(others) {
            trusted
                .add(certificate)
                .map_err(|source| unusable(stored, AUTHORITY_CERTIFICATE, Some(source)))?;
        }
        Ok(Signer { authority: current, trusted, due })
    }
}

fn make(keyring: &Keyring<'_>, name: &str) -> Result<Authority, Error> {
    Subject::try_new(format!("{name} of {}", keyring.namespace))
        .map_err(pilothouse_pki::Error::from)
        .and_then(|subject| Authority::self_signed(&AuthorityRequest::new(subject), keyring.clock))
        .map_err(|source| Error::Certificate { name: name.to_owned(), source })
}

/// When a tenth of its life is left.
fn takes_over_at(certificate: &Certificate) -> Timestamp {
    let life = certificate.not_after().duration_since(certificate.not_before());
    certificate.not_after().saturating_sub(life / 10).unwrap_or(Timestamp::MIN)
}

/// As the API writes bytes; this cannot fail.
pub(crate) fn text(bytes: Vec<u8>) -> Value {
    serde_json::to_value(ByteString(bytes)).unwrap_or_default()
}
