use std::path::Path;

use rustls_pki_types::CertificateDer;

use crate::files::{FileError, Visibility, read, write_atomically};
use crate::{Certificate, Error, PrivateKey, pem};

/// A certificate, those between it and its trusted top, and the private key.
#[derive(Debug)]
pub struct Identity {
    certificate: Certificate,
    above: Vec<Certificate>,
    key: PrivateKey,
}

impl Identity {
    pub(crate) fn new(certificate: Certificate, above: Vec<Certificate>, key: PrivateKey) -> Self {
        Self { certificate, above, key }
    }

    /// Reads a chain (leaf first) and its key, and checks that they belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, Error> {
        let key = PrivateKey::from_pem(key)?;
        let mut certificates =
            pem::certificates("the certificate file", chain)?.into_iter().map(Certificate::from_der);
        // `certificates` never answers with an empty list.
        let Some(certificate) = certificates.next().transpose()? else {
            return Err(Error::Missing { what: "the certificate file", section: "CERTIFICATE" });
        };
        if certificate.public_key_info() != key.public_key_info() {
            return Err(Error::KeyMismatch(certificate.fingerprint()));
        }
        Ok(Self { certificate, above: certificates.collect::<Result<_, _>>()?, key })
    }

    /// Joins the answer to a signing request with the key that never left this side.
    pub fn from_signed(chain: Vec<Certificate>, key: PrivateKey) -> Result<Self, Error> {
        let mut chain = chain.into_iter();
        let Some(certificate) = chain.next() else {
            return Err(Error::Missing { what: "the answer to the signing request", section: "CERTIFICATE" });
        };
        if certificate.public_key_info() != key.public_key_info() {
            return Err(Error::KeyMismatch(certificate.fingerprint()));
        }
        Ok(Self { certificate, above: chain.collect(), key })
    }

    /// Reads both files. Fails with [`Error::KeyMismatch`] if a crash came between writing one and the other.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, Error> {
        Self::from_pem(&read(certificate)?, &read(key)?)
    }

    /// Writes both files, each atomically: the key first and readable by the owner only, then the certificate.
    ///
    /// The pair is not atomic. A reader that meets one new and one old file sees that they do not belong together, and
    /// a renewal makes a new pair.
    pub fn write(&self, certificate: &Path, key: &Path) -> Result<(), FileError> {
        write_atomically(key, self.key.to_pem().as_bytes(), Visibility::OwnerOnly)?;
        write_atomically(certificate, self.chain_pem().as_bytes(), Visibility::Everyone)
    }

    /// The certificate itself.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The certificate and those above it, in the order TLS sends them.
    pub fn chain(&self) -> impl Iterator<Item = &Certificate> {
        std::iter::once(&self.certificate).chain(&self.above)
    }

    /// The chain for a TLS configuration.
    pub fn chain_der(&self) -> Vec<CertificateDer<'static>> {
        self.chain().map(|certificate| certificate.der().clone()).collect()
    }

    /// The chain as PEM.
    pub fn chain_pem(&self) -> String {
        self.chain().map(Certificate::to_pem).collect()
    }

    /// The private key.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }
}
