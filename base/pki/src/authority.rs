use std::time::Duration;

use jiff::Timestamp;
use pilothouse_runtime::Clock;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyIdMethod, KeyUsagePurpose};
use rustls_pki_types::CertificateDer;

use crate::der::{self, Drafting};
use crate::leaf::{Validity, draft_params};
use crate::{Certificate, Error, Identity, KeyAlgorithm, LeafRequest, PrivateKey, SigningRequest, Subject};

/// Index of the issuer in a `TBSCertificate`.
const ISSUER: usize = 3;
/// Index of the subject in a `TBSCertificate`.
const SUBJECT: usize = 5;

const DEFAULT_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// What an authority should be like.
#[derive(Clone, Debug)]
pub struct AuthorityRequest {
    subject: Subject,
    lifetime: Duration,
    key_algorithm: KeyAlgorithm,
    path_length: Option<u8>,
}

/// A certificate that may sign others, with its private key and the chain above it.
#[derive(Debug)]
pub struct Authority {
    identity: Identity,
}

impl AuthorityRequest {
    /// An authority valid for ten years that signs leaves only.
    pub fn new(subject: Subject) -> Self {
        Self {
            subject,
            lifetime: DEFAULT_LIFETIME,
            key_algorithm: KeyAlgorithm::default(),
            path_length: Some(0),
        }
    }

    /// How long it is to be valid from now on.
    pub fn with_lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Which kind of key to make.
    pub fn with_key_algorithm(mut self, algorithm: KeyAlgorithm) -> Self {
        self.key_algorithm = algorithm;
        self
    }

    /// How many authorities may stand below it in one chain; `None` for any number.
    pub fn with_path_length(mut self, path_length: Option<u8>) -> Self {
        self.path_length = path_length;
        self
    }

    fn params(&self, validity: Validity) -> Result<CertificateParams, Error> {
        let mut params = draft_params(validity)?;
        params.is_ca = IsCa::Ca(match self.path_length {
            Some(length) => BasicConstraints::Constrained(length),
            None => BasicConstraints::Unconstrained,
        });
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        Ok(params)
    }
}

impl Authority {
    /// Makes an authority that vouches for itself.
    pub fn self_signed(request: &AuthorityRequest, clock: &Clock) -> Result<Self, Error> {
        let key = PrivateKey::generate(request.key_algorithm)?;
        let params = request.params(Validity::starting(clock.now(), request.lifetime, None)?)?;
        let draft = params.self_signed(&Drafting(key.pair())).map_err(draft_failed)?;
        let name = request.subject.to_der();
        let der = der::finish(draft.der(), &[(ISSUER, &name), (SUBJECT, &name)], key.pair())?;
        let certificate = Certificate::from_der(CertificateDer::from(der))?;
        Ok(Self { identity: Identity::new(certificate, Vec::new(), key) })
    }

    /// Makes an authority below this one. Its leaves carry the whole chain, so verifiers need to know only the top.
    pub fn intermediate(&self, request: &AuthorityRequest, clock: &Clock) -> Result<Self, Error> {
        if let Some(length) = self.certificate().path_length()
            && request.path_length.is_none_or(|wanted| wanted >= length)
        {
            return Err(Error::PathLength {
                name: self.name(),
                length,
                wanted: request
                    .path_length
                    .map_or_else(|| "no limit".to_owned(), |wanted| wanted.to_string()),
            });
        }
        let key = PrivateKey::generate(request.key_algorithm)?;
        let params = request.params(self.validity(clock.now(), request.lifetime)?)?;
        let certificate = self.sign(&params, key.pair(), &request.subject)?;
        Ok(Self { identity: Identity::new(certificate, self.chain_below(), key) })
    }

    /// Reads an authority: its certificate first, then those above it if any, and its key.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, Error> {
        let identity = Identity::from_pem(chain, key)?;
        if !identity.certificate().is_authority() {
            return Err(Error::NotAnAuthority(identity.certificate().fingerprint()));
        }
        Ok(Self { identity })
    }

    /// Makes a key and a certificate for it.
    pub fn issue(&self, request: &LeafRequest, clock: &Clock) -> Result<Identity, Error> {
        let key = PrivateKey::generate(request.key_algorithm())?;
        let params =
            request.params(self.validity(clock.now(), request.lifetime())?, request.key_algorithm())?;
        let certificate = self.sign(&params, key.pair(), request.subject())?;
        Ok(Identity::new(certificate, self.chain_below(), key))
    }

    /// Signs for a key that stays with the peer. Only the public key is taken from `asked`: what the certificate says is
    /// `granted`, which the caller builds after looking at what was asked for.
    ///
    /// The answer is the certificate followed by the authorities above it, up to but without the top.
    pub fn sign_request(
        &self,
        asked: &SigningRequest,
        granted: &LeafRequest,
        clock: &Clock,
    ) -> Result<Vec<Certificate>, Error> {
        let validity = self.validity(clock.now(), granted.lifetime())?;
        let params = granted.params(validity, asked.key_algorithm())?;
        let certificate = self.sign(&params, asked.public_key(), granted.subject())?;
        Ok(std::iter::once(certificate).chain(self.chain_below()).collect())
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> &Certificate {
        self.identity.certificate()
    }

    /// Certificate and key, to be written to files. Whoever holds this can sign anything.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    fn sign(
        &self,
        params: &CertificateParams,
        public_key: &impl rcgen::PublicKeyData,
        subject: &Subject,
    ) -> Result<Certificate, Error> {
        let mut issuer = CertificateParams::default();
        if let Some(id) = self.certificate().subject_key_id() {
            // Repeat what the authority calls itself; how it came to that id is its maker's business.
            issuer.key_identifier_method = KeyIdMethod::PreSpecified(id.to_vec());
        }
        issuer.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = self.identity.key().pair();
        let draft =
            params.signed_by(public_key, &Issuer::new(issuer, Drafting(key))).map_err(draft_failed)?;
        let fields = [(ISSUER, self.certificate().subject_der()), (SUBJECT, subject.to_der().as_slice())]
            .map(|(index, field)| (index, field.to_vec()));
        let fields = fields.each_ref().map(|(index, field)| (*index, field.as_slice()));
        Certificate::from_der(CertificateDer::from(der::finish(draft.der(), &fields, key)?))
    }

    fn validity(&self, now: Timestamp, lifetime: Duration) -> Result<Validity, Error> {
        let end = self.certificate().not_after();
        if end <= now {
            return Err(Error::AuthorityExpired { name: self.name(), at: end });
        }
        Validity::starting(now, lifetime, Some(end))
    }

    /// What goes between a leaf and the trusted top. The top itself is left out: a verifier either has it or must not
    /// be talked into it.
    fn chain_below(&self) -> Vec<Certificate> {
        self.identity.chain().filter(|certificate| !certificate.is_signed_by(certificate)).cloned().collect()
    }

    fn name(&self) -> String {
        self.certificate().subject().common_name().to_owned()
    }
}

fn draft_failed(error: rcgen::Error) -> Error {
    Error::Crypto { action: "writing the certificate", reason: error.to_string() }
}
