//! Keys and certificates in Secrets: made once, kept, renewed.
//!
//! The cache may be behind what an earlier pass made. So a missing Secret is *created*, never applied: if it exists after
//! all, the one that exists wins. Otherwise a pass that came too early would replace an authority, and with it every
//! certificate of the cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_pki::{
    Authority, AuthorityRequest, Identity, KeyAlgorithm, LeafRequest, PrivateKey, Subject, Wanted,
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

/// The Secrets of one namespace, and what is needed to make more of them.
pub(crate) struct Keyring<'a> {
    pub(crate) client: &'a Client,
    pub(crate) cache: &'a Informer<Secret>,
    pub(crate) clock: &'a Clock,
    pub(crate) namespace: &'a str,
}

// === impl Keyring ===

impl Keyring<'_> {
    /// The authority of this Secret.
    pub(crate) async fn authority(&self, metadata: ObjectMeta) -> Result<Authority, Error> {
        let name = metadata.name.clone().unwrap_or_default();
        if let Some(cached) = self.cached(&name) {
            return self.read_authority(&cached);
        }
        let made = Subject::try_new(format!("{name} of {}", self.namespace))
            .map_err(pilothouse_pki::Error::from)
            .and_then(|subject| Authority::self_signed(&AuthorityRequest::new(subject), self.clock))
            .map_err(|source| Error::Certificate { name, source })?;
        let data = [
            (AUTHORITY_CERTIFICATE, made.identity().chain_pem().into_bytes()),
            (AUTHORITY_KEY, made.identity().key().to_pem().as_bytes().to_vec()),
        ];
        let kept = apply::ensure_exists(&self.api(), &secret(metadata, "Opaque", data)).await?;
        self.read_authority(&kept)
    }

    /// The authority of this Secret, if it has been made.
    pub(crate) fn authority_if_made(&self, name: &str) -> Result<Option<Authority>, Error> {
        self.cached(name).map(|secret| self.read_authority(&secret)).transpose()
    }

    /// The certificate of this Secret, renewed if it has to be.
    pub(crate) async fn leaf(
        &self,
        metadata: ObjectMeta,
        request: &LeafRequest,
        authority: &Authority,
    ) -> Result<Identity, Error> {
        let name = metadata.name.clone().unwrap_or_default();
        let kept = match self.cached(&name) {
            Some(cached) => cached,
            None => {
                let made = self.issue(&name, request, authority)?;
                apply::ensure_exists(&self.api(), &leaf_secret(metadata.clone(), &made)).await?
            }
        };
        let identity = self.read_leaf(&kept)?;
        match self.renewal(&identity, request, authority) {
            None => Ok(identity),
            Some(reason) => {
                info!(secret = name, namespace = self.namespace, %reason, "certificate renewed");
                let renewed = self.issue(&name, request, authority)?;
                apply::ensure(&self.api(), Some(kept), &leaf_secret(metadata, &renewed)).await?;
                Ok(renewed)
            }
        }
    }

    /// A signing key that is no certificate's. Never replaced: every token it signed would be void.
    pub(crate) async fn signing_key(&self, metadata: ObjectMeta, key: &'static str) -> Result<(), Error> {
        let name = metadata.name.clone().unwrap_or_default();
        if self.cached(&name).is_some() {
            return Ok(());
        }
        let made = PrivateKey::generate(KeyAlgorithm::EcdsaP256)
            .map_err(|source| Error::Certificate { name, source })?;
        let data = [(key, made.to_pem().as_bytes().to_vec())];
        apply::ensure_exists(&self.api(), &secret(metadata, "Opaque", data)).await?;
        Ok(())
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
    ) -> Option<pilothouse_pki::RenewalReason> {
        let wanted = Wanted { request, authority: authority.certificate() };
        identity.certificate().needs_renewal(self.clock.now(), wanted)
    }

    pub(crate) fn cached(&self, name: &str) -> Option<std::sync::Arc<Secret>> {
        self.cache.get(&ObjectKey::namespaced(self.namespace, name))
    }

    pub(crate) fn api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    fn read_authority(&self, secret: &Secret) -> Result<Authority, Error> {
        let (certificate, key) = (value(secret, AUTHORITY_CERTIFICATE)?, value(secret, AUTHORITY_KEY)?);
        Authority::from_pem(certificate, key).map_err(|source| unusable(secret, AUTHORITY_KEY, Some(source)))
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

fn value<'a>(secret: &'a Secret, key: &'static str) -> Result<&'a [u8], Error> {
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    value.map(|value| value.0.as_slice()).ok_or_else(|| unusable(secret, key, None))
}

fn unusable(secret: &Secret, key: &'static str, source: Option<pilothouse_pki::Error>) -> Error {
    Error::Secret { secret: ObjectKey::of(secret).to_string(), key, source }
}
