use std::path::Path;

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;

use crate::files::{FileError, Visibility, read, write_atomically};
use crate::{Certificate, Error, Fingerprint, pem};

/// The authorities a verifier trusts, newest last.
///
/// While an authority is being replaced there are two: the old one stays until nothing signed by it is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    certificates: Vec<Certificate>,
}

impl Bundle {
    /// A bundle that trusts nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one or more authorities. Anything that is not one is refused: a leaf in a trust store is a mistake.
    pub fn from_pem(text: &[u8]) -> Result<Self, Error> {
        let mut bundle = Self::new();
        for der in pem::certificates("the authority file", text)? {
            bundle.add(Certificate::from_der(der)?)?;
        }
        Ok(bundle)
    }

    /// Reads a file written by [`Bundle::write`] or put there by an administrator.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::from_pem(&read(path)?)
    }

    /// Writes the bundle atomically, readable by everyone.
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        write_atomically(path, self.to_pem().as_bytes(), Visibility::Everyone)
    }

    /// Trusts a further authority. Answers whether it is new.
    pub fn add(&mut self, authority: Certificate) -> Result<bool, Error> {
        if !authority.is_authority() {
            return Err(Error::NotAnAuthority(authority.fingerprint()));
        }
        let new = !self.contains(authority.fingerprint());
        if new {
            self.certificates.push(authority);
        }
        Ok(new)
    }

    /// Stops trusting an authority. Answers whether it was there.
    pub fn drop_authority(&mut self, fingerprint: Fingerprint) -> bool {
        let before = self.certificates.len();
        self.certificates.retain(|certificate| certificate.fingerprint() != fingerprint);
        self.certificates.len() < before
    }

    /// Removes what has expired and answers with it, so that somebody can write it down.
    pub fn drop_expired(&mut self, now: Timestamp) -> Vec<Certificate> {
        self.certificates.extract_if(.., |certificate| certificate.not_after() < now).collect()
    }

    /// Whether the authority is trusted.
    pub fn contains(&self, fingerprint: Fingerprint) -> bool {
        self.certificates.iter().any(|certificate| certificate.fingerprint() == fingerprint)
    }

    /// The authorities, oldest first.
    pub fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }

    /// The authorities for a TLS configuration.
    pub fn der(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.certificates.iter().map(Certificate::der)
    }

    /// The authorities as PEM.
    pub fn to_pem(&self) -> String {
        self.certificates.iter().map(Certificate::to_pem).collect()
    }
}

impl From<&Certificate> for Bundle {
    /// Trusts exactly one certificate. Unlike [`Bundle::add`] it takes any, as a pinned peer is one that signs nothing.
    fn from(certificate: &Certificate) -> Self {
        Self { certificates: vec![certificate.clone()] }
    }
}
