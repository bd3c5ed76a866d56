use std::collections::BTreeSet;

use rcgen::{CertificateParams, DnType, SubjectPublicKeyInfo};
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer as _;

use crate::der::{self, Drafting};
use crate::{AlternativeName, Error, KeyAlgorithm, PrivateKey, Subject, pem};

/// Index of the subject in a `CertificationRequestInfo`.
const SUBJECT: usize = 1;

/// A peer's wish for a certificate, with proof that it has the private key.
///
/// Reading one checks the proof and nothing else. Whether the peer may be called what it asks to be called is the
/// caller's decision; see [`Authority::sign_request`](crate::Authority::sign_request).
#[derive(Clone, Debug)]
pub struct SigningRequest {
    subject: Subject,
    names: BTreeSet<AlternativeName>,
    public_key: SubjectPublicKeyInfo,
    public_key_info: Vec<u8>,
    key_algorithm: KeyAlgorithm,
}

impl SigningRequest {
    /// Reads a request and checks its signature. Names of kinds we do not sign (mail, directory) are an error, so that
    /// no peer believes it was given one.
    pub fn from_pem(text: &[u8]) -> Result<Self, Error> {
        const WHAT: &str = "the signing request";
        let der = CertificateSigningRequestDer::from_pem_slice(text).map_err(|error| match error {
            rustls_pki_types::pem::Error::NoItemsFound => {
                Error::Missing { what: WHAT, section: "CERTIFICATE REQUEST" }
            }
            error => Error::Malformed { what: WHAT, reason: error.to_string() },
        })?;
        let malformed = |reason: String| Error::Malformed { what: WHAT, reason };
        let (_, parsed) =
            X509CertificationRequest::from_der(&der).map_err(|error| malformed(error.to_string()))?;
        parsed.verify_signature().map_err(|_| Error::UnprovenRequest)?;

        let info = &parsed.certification_request_info;
        let mut names = BTreeSet::new();
        for extension in parsed.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(asked) = extension {
                for name in &asked.general_names {
                    let name = AlternativeName::read(name).ok_or_else(|| {
                        malformed("it asks for a name that is not DNS, IP or URI".to_owned())
                    })?;
                    names.insert(name.validated()?);
                }
            }
        }
        Ok(Self {
            subject: Subject::read(&info.subject).validated()?,
            names,
            public_key: SubjectPublicKeyInfo::from_der(info.subject_pki.raw)
                .map_err(|_| Error::UnsupportedKey)?,
            public_key_info: info.subject_pki.raw.to_vec(),
            key_algorithm: KeyAlgorithm::of_public_key(info.subject_pki.raw).ok_or(Error::UnsupportedKey)?,
        })
    }

    /// Writes a request for `key` as PEM.
    pub fn write(
        subject: &Subject,
        names: impl IntoIterator<Item = AlternativeName>,
        key: &PrivateKey,
    ) -> Result<String, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "draft");
        params.subject_alt_names =
            names.into_iter().map(|name| name.to_rcgen()).collect::<Result<Vec<_>, _>>()?;
        let draft = params.serialize_request(&Drafting(key.pair())).map_err(|error| Error::Crypto {
            action: "writing the signing request",
            reason: error.to_string(),
        })?;
        let der = der::finish(draft.der(), &[(SUBJECT, &subject.to_der())], key.pair())?;
        Ok(pem::encode("CERTIFICATE REQUEST", &der).to_string())
    }

    /// What the peer asks to be called.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Under which names it asks to be reached.
    pub fn names(&self) -> &BTreeSet<AlternativeName> {
        &self.names
    }

    /// What kind of key it has.
    pub fn key_algorithm(&self) -> KeyAlgorithm {
        self.key_algorithm
    }

    /// Whether it asks for a certificate for this key.
    pub fn is_for(&self, key: &PrivateKey) -> bool {
        self.public_key_info == key.public_key_info()
    }

    pub(crate) fn public_key(&self) -> &SubjectPublicKeyInfo {
        &self.public_key
    }
}
