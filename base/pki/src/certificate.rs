use std::collections::BTreeSet;
use std::fmt;

use aws_lc_rs::digest;
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::parse_x509_certificate;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::key::KeyAlgorithm;
use crate::leaf::Usage;
use crate::{AlternativeName, Error, Subject, pem};

/// What a certificate says, read once. The bytes it was read from are kept.
#[derive(Clone)]
pub struct Certificate {
    der: CertificateDer<'static>,
    fingerprint: Fingerprint,
    subject: Subject,
    subject_der: Vec<u8>,
    names: BTreeSet<AlternativeName>,
    usages: BTreeSet<Usage>,
    not_before: Timestamp,
    not_after: Timestamp,
    serial: String,
    public_key_info: Vec<u8>,
    subject_key_id: Option<Vec<u8>>,
    /// `None`: not an authority. `Some(None)`: an authority without a limit on those below it.
    authority: Option<Option<u8>>,
}

/// The SHA-256 of a certificate's bytes, by which it is told from every other one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Certificate {
    /// Reads one certificate.
    pub fn from_der(der: CertificateDer<'static>) -> Result<Self, Error> {
        let malformed = |reason: String| Error::Malformed { what: "the certificate", reason };
        let (rest, parsed) = parse_x509_certificate(&der).map_err(|error| malformed(error.to_string()))?;
        if !rest.is_empty() {
            return Err(malformed("bytes follow its end".to_owned()));
        }
        let instant = |seconds| Timestamp::from_second(seconds).map_err(|error| malformed(error.to_string()));
        let mut certificate = Self {
            fingerprint: Fingerprint::of(&der),
            subject: Subject::read(parsed.subject()),
            subject_der: parsed.subject().as_raw().to_vec(),
            names: BTreeSet::new(),
            usages: BTreeSet::new(),
            not_before: instant(parsed.validity().not_before.timestamp())?,
            not_after: instant(parsed.validity().not_after.timestamp())?,
            serial: parsed.raw_serial_as_string(),
            public_key_info: parsed.public_key().raw.to_vec(),
            subject_key_id: None,
            authority: None,
            der: der.clone(),
        };
        certificate.read_extensions(&parsed);
        Ok(certificate)
    }

    /// Reads the first certificate in `text`.
    pub fn from_pem(text: &[u8]) -> Result<Self, Error> {
        Self::from_der(pem::certificates("the certificate file", text)?.swap_remove(0))
    }

    /// Reads all certificates in `text`, of which there has to be one.
    pub fn chain_from_pem(text: &[u8]) -> Result<Vec<Self>, Error> {
        pem::certificates("the certificate file", text)?.into_iter().map(Self::from_der).collect()
    }

    fn read_extensions(&mut self, parsed: &X509Certificate<'_>) {
        for extension in parsed.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectAlternativeName(names) => {
                    self.names.extend(names.general_names.iter().filter_map(AlternativeName::read));
                }
                ParsedExtension::ExtendedKeyUsage(usage) => {
                    if usage.server_auth {
                        self.usages.insert(Usage::Server);
                    }
                    if usage.client_auth {
                        self.usages.insert(Usage::Client);
                    }
                }
                ParsedExtension::BasicConstraints(constraints) if constraints.ca => {
                    // Chains longer than 255 do not exist; a larger number is as good as that.
                    let limit = |length: u32| u8::try_from(length).unwrap_or(u8::MAX);
                    self.authority = Some(constraints.path_len_constraint.map(limit));
                }
                ParsedExtension::SubjectKeyIdentifier(id) => self.subject_key_id = Some(id.0.to_vec()),
                _ => {}
            }
        }
    }

    /// The certificate for a TLS configuration.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// The certificate as PEM.
    pub fn to_pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.der).to_string()
    }

    /// What tells this certificate from every other one.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Whom the certificate is about.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Under which names its holder may be reached.
    pub fn names(&self) -> &BTreeSet<AlternativeName> {
        &self.names
    }

    /// What it may be used for.
    pub fn usages(&self) -> &BTreeSet<Usage> {
        &self.usages
    }

    /// Start of the validity.
    pub fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// End of the validity; the certificate is still good at this instant.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// The serial number, as hexadecimal pairs.
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// The kind of key, if it is one we know.
    pub fn key_algorithm(&self) -> Option<KeyAlgorithm> {
        KeyAlgorithm::of_public_key(&self.public_key_info)
    }

    /// Whether it may sign other certificates.
    pub fn is_authority(&self) -> bool {
        self.authority.is_some()
    }

    /// How many authorities may stand below this one; `None` without a limit, or if it is no authority at all.
    pub fn path_length(&self) -> Option<u8> {
        self.authority.flatten()
    }

    /// Whether `authority`'s key made the signature on this certificate. Names and key ids are only claims.
    pub fn is_signed_by(&self, authority: &Certificate) -> bool {
        let Ok((_, parsed)) = parse_x509_certificate(&self.der) else { return false };
        let Ok((_, key)) = SubjectPublicKeyInfo::from_der(&authority.public_key_info) else { return false };
        parsed.issuer().as_raw() == authority.subject_der && parsed.verify_signature(Some(&key)).is_ok()
    }

    pub(crate) fn subject_der(&self) -> &[u8] {
        &self.subject_der
    }

    pub(crate) fn subject_key_id(&self) -> Option<&[u8]> {
        self.subject_key_id.as_deref()
    }

    pub(crate) fn public_key_info(&self) -> &[u8] {
        &self.public_key_info
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

impl Eq for Certificate {}

impl fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Certificate")
            .field("subject", &self.subject)
            .field("names", &self.names)
            .field("not_after", &self.not_after)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

impl Fingerprint {
    fn of(der: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, der).as_ref());
        Self(bytes)
    }

    /// A number spread evenly over all certificates, always the same for this one.
    pub(crate) fn as_number(self) -> u64 {
        self.0.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
