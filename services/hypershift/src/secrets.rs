//! Keys and certificates in Secrets: made once, kept, renewed.
//!
//! The cache may be behind what an earlier pass made. So a missing Secret is *created*, never applied: if it exists after
//! all, the one that exists wins. Otherwise a pass that came too early would replace an authority, and with it every
//! certificate of the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_pki::{
    Authority, BACKDATE, Certificate, Identity, KeyAlgorithm, LeafRequest, PrivateKey, RenewalReason, Wanted,
};
use pilothouse_runtime::Clock;
use tracing::info;

use crate::apply;
use crate::error::Error;

pub(crate) const AUTHORITY_CERTIFICATE: &str = "ca.crt";
pub(crate) const AUTHORITY_KEY: &str = "ca.key";
pub(crate) const CERTIFICATE: &str = "tls.crt";
pub(crate) const KEY: &str = "tls.key";

/// How long a leaf certificate is valid. Renewal begins after six tenths of it.
pub(crate) const LEAF_LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The largest share of its life that a certificate has left when it is renewed, unless somebody asks for more.
const LARGEST_SHARE: f64 = 0.4;

/// How long leaf certificates live, and when they are renewed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lifetimes {
    validity: Duration,
    /// The share of its life that a certificate has left when it is renewed. Without it between four and two tenths.
    renewal: Option<f64>,
    /// Nothing is made or renewed.
    frozen: bool,
}

/// The Secrets of one namespace, and what is needed to make more of them.
pub(crate) struct Keyring<'a> {
    pub(crate) client: &'a Client,
    pub(crate) cache: &'a Informer<Secret>,
    pub(crate) clock: &'a Clock,
    pub(crate) namespace: &'a str,
}

// === impl Lifetimes ===

impl Lifetimes {
    pub(crate) fn new(validity: Option<Duration>, renewal: Option<f64>, frozen: bool) -> Self {
        Self { validity: validity.unwrap_or(LEAF_LIFETIME), renewal, frozen }
    }

    pub(crate) fn validity(&self) -> Duration {
        self.validity
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// When this certificate is to be renewed. It begins in the past, because clocks differ, which is no part of its life: one
    /// of a few minutes would be due at once.
    pub(crate) fn renew_at(&self, certificate: &Certificate) -> Timestamp {
        let end = certificate.not_after();
        let begin = certificate.not_before().saturating_add(BACKDATE).unwrap_or(end).min(end);
        let life = end.duration_since(begin);
        let left = |share: f64| end.saturating_sub(life.mul_f64(share)).unwrap_or(Timestamp::MIN);
        match self.renewal {
            Some(renewal) => left(renewal),
            None => certificate.renew_at().max(left(LARGEST_SHARE)),
        }
    }
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self::new(None, None, false)
    }
}

// === impl Keyring ===

impl Keyring<'_> {
    /// The certificate of this Secret, renewed when these lifetimes say so.
    pub(crate) async fn leaf_of(
        &self,
        metadata: ObjectMeta,
        request: LeafRequest,
        authority: &Authority,
        lifetimes: &Lifetimes,
    ) -> Result<Identity, Error> {
        let name = metadata.name.clone().unwrap_or_default();
        let request = request.with_lifetime(lifetimes.validity());
        let kept = match self.cached(&name) {
            Some(cached) => cached,
            None if lifetimes.is_frozen() => self.kept(&name).await?,
            None => {
                let made = self.issue(&name, &request, authority)?;
                apply::ensure_exists(&self.api(), &leaf_secret(metadata.clone(), &made)).await?
            }
        };
        let identity = self.read_leaf(&kept)?;
        if lifetimes.is_frozen() {
            return Ok(identity);
        }
        let now = self.clock.now();
        let due = now >= lifetimes.renew_at(identity.certificate());
        let reason = match self.renewal(&identity, &request, authority) {
            // The crate's own idea of when it is time gives way to what was asked for.
            None | Some(RenewalReason::Due { .. }) => due.then(|| "it is due".to_owned()),
            Some(reason) => Some(reason.to_string()),
        };
        let Some(reason) = reason else { return Ok(identity) };
        info!(secret = name, namespace = self.namespace, reason, "certificate renewed");
        let renewed = self.issue(&name, &request, authority)?;
        apply::ensure(&self.api(), Some(kept), &leaf_secret(metadata, &renewed)).await?;
        Ok(renewed)
    }

    /// A Secret that must be there, because nothing is made any more.
    pub(crate) async fn kept(&self, name: &str) -> Result<Arc<Secret>, Error> {
        let found = self.api().get_opt(name).await;
        let found = found
            .map_err(|error| Error::management("show", format!("Secret {}/{name}", self.namespace), error))?;
        found.map(Arc::new).ok_or_else(|| Error::Frozen(format!("{}/{name}", self.namespace)))
    }

    /// Makes a signing key that is no certificate's. One that exists is never replaced: every token it signed would be
    /// void.
    pub(crate) async fn signing_key(
        &self,
        metadata: ObjectMeta,
        key: &'static str,
    ) -> Result<Arc<Secret>, Error> {
        let name = metadata.name.clone().unwrap_or_default();
        let made = PrivateKey::generate(KeyAlgorithm::EcdsaP256)
            .map_err(|source| Error::Certificate { name, source })?;
        let data = [(key, made.to_pem().as_bytes().to_vec())];
        apply::ensure_exists(&self.api(), &secret(metadata, "Opaque", data)).await
    }

    pub(crate) fn issue(
        &self,
        name: &str,
        request: &LeafRequest,
        authority: &Authority,
    ) -> Result<Identity, Error> {
        let issued = authority.issue(request, self.clock);
        issued.map_err(|source| Error::Certificate { name: name.to_owned(), source })
    }

    /// Why a certificate has to be replaced, if it has to be.
    pub(crate) fn renewal(
        &self,
        identity: &Identity,
        request: &LeafRequest,
        authority: &Authority,
    ) -> Option<RenewalReason> {
        let wanted = Wanted { request, authority: authority.certificate() };
        identity.certificate().needs_renewal(self.clock.now(), wanted)
    }

    pub(crate) fn cached(&self, name: &str) -> Option<Arc<Secret>> {
        self.cache.get(&ObjectKey::namespaced(self.namespace, name))
    }

    pub(crate) fn api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    fn read_leaf(&self, secret: &Secret) -> Result<Identity, Error> {
        read_identity(secret, CERTIFICATE, KEY)
    }
}

/// The certificate and key under these keys of a Secret.
pub(crate) fn read_identity(
    secret: &Secret,
    certificate: &'static str,
    key: &'static str,
) -> Result<Identity, Error> {
    Identity::from_pem(value(secret, certificate)?, value(secret, key)?)
        .map_err(|source| unusable(secret, key, Some(source)))
}

/// A Secret with this content.
pub(crate) fn secret<'a>(
    metadata: ObjectMeta,
    type_: &str,
    data: impl IntoIterator<Item = (&'a str, Vec<u8>)>,
) -> Secret {
    let data: BTreeMap<_, _> =
        data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value))).collect();
    Secret { metadata, type_: Some(type_.to_owned()), data: Some(data), ..Secret::default() }
}

fn leaf_secret(metadata: ObjectMeta, identity: &Identity) -> Secret {
    let data = [
        (CERTIFICATE, identity.chain_pem().into_bytes()),
        (KEY, identity.key().to_pem().as_bytes().to_vec()),
    ];
    secret(metadata, "kubernetes.io/tls", data)
}

pub(crate) fn value<'a>(secret: &'a Secret, key: &'static str) -> Result<&'a [u8], Error> {
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    value.map(|value| value.0.as_slice()).ok_or_else(|| unusable(secret, key, None))
}

pub(crate) fn unusable(secret: &Secret, key: &'static str, source: Option<pilothouse_pki::Error>) -> Error {
    Error::Secret { secret: ObjectKey::of(secret).to_string(), key, source }
}

#[cfg(test)]
mod tests {
    use pilothouse_pki::{AuthorityRequest, Subject};
    use rstest::rstest;

    use super::*;

    /// Of a certificate that is just made, the share of its life that is over when it is due.
    #[rstest]
    #[case(90, None, 0.6, 0.8)]
    #[case(90, Some(0.5), 0.5, 0.5)]
    #[case(365 * 24 * 60 * 60, None, 0.6, 0.8)]
    #[case(365 * 24 * 60 * 60, Some(0.3), 0.7, 0.7)]
    fn a_certificate_is_renewed_in_its_life_however_short_that_is(
        #[case] seconds: u64,
        #[case] renewal: Option<f64>,
        #[case] earliest: f64,
        #[case] latest: f64,
    ) {
        let clock = Clock::system();
        let subject = |name: &str| Subject::try_new(name).unwrap();
        let authority = Authority::self_signed(&AuthorityRequest::new(subject("authority")), &clock).unwrap();
        let validity = Duration::from_secs(seconds);
        let request = LeafRequest::client(subject("somebody")).with_lifetime(validity);
        let leaf = authority.issue(&request, &clock).unwrap();
        let due = Lifetimes::new(Some(validity), renewal, false).renew_at(leaf.certificate());
        let over = due.duration_since(clock.now()).as_secs_f64() / validity.as_secs_f64();
        assert!(over > earliest - 0.03 && over < latest + 0.03, "{over}");
    }
}
