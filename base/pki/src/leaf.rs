//! What a certificate should say, and the draft that says it.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose, SerialNumber};

use crate::{AlternativeName, Error, KeyAlgorithm, Subject};

/// How far in the past a certificate starts: clocks of peers differ, and a certificate "from the future" is refused.
pub const BACKDATE: Duration = Duration::from_secs(5 * 60);

/// Long enough to survive a weekend with the renewal loop broken, short enough that renewal is a daily habit.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Usage {
    /// Proving to clients that this is the server they asked for.
    Server,
    /// Proving to servers who is asking.
    Client,
}

/// What a leaf certificate should say. Also what an existing one is compared with, see [`Wanted`](crate::Wanted).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafRequest {
    subject: Subject,
    names: BTreeSet<AlternativeName>,
    usages: BTreeSet<Usage>,
    lifetime: Duration,
    key_algorithm: KeyAlgorithm,
}

impl LeafRequest {
    /// A server certificate. Clients only look at `names`; the subject is for people.
    pub fn server(subject: Subject, names: impl IntoIterator<Item = AlternativeName>) -> Self {
        Self::new(subject, Usage::Server).with_names(names)
    }

    /// A client certificate. To Kubernetes the subject is user and groups.
    pub fn client(subject: Subject) -> Self {
        Self::new(subject, Usage::Client)
    }

    fn new(subject: Subject, usage: Usage) -> Self {
        Self {
            subject,
            names: BTreeSet::new(),
            usages: BTreeSet::from([usage]),
            lifetime: DEFAULT_LIFETIME,
            key_algorithm: KeyAlgorithm::default(),
        }
    }

    /// Allows a further use, as for services that both serve and call.
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usages.insert(usage);
        self
    }

    /// Adds names.
    pub fn with_names(mut self, names: impl IntoIterator<Item = AlternativeName>) -> Self {
        self.names.extend(names);
        self
    }

    /// How long the certificate is to be valid from now on; a week unless told. Cut to the authority's own end.
    pub fn with_lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Which kind of key to make; ECDSA P-256 unless told.
    pub fn with_key_algorithm(mut self, algorithm: KeyAlgorithm) -> Self {
        self.key_algorithm = algorithm;
        self
    }

    /// Whom the certificate is to be about.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Its names.
    pub fn names(&self) -> &BTreeSet<AlternativeName> {
        &self.names
    }

    /// Its uses.
    pub fn usages(&self) -> &BTreeSet<Usage> {
        &self.usages
    }

    /// Its kind of key.
    pub fn key_algorithm(&self) -> KeyAlgorithm {
        self.key_algorithm
    }

    pub(crate) fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// The draft, for a public key of the given kind, which in a signing request is the peer's choice.
    pub(crate) fn params(&self, validity: Validity, key: KeyAlgorithm) -> Result<CertificateParams, Error> {
        let mut params = draft_params(validity)?;
        params.subject_alt_names =
            self.names.iter().map(AlternativeName::to_rcgen).collect::<Result<_, _>>()?;
        // Not the default of saying nothing: only with it does the certificate get a subject key id.
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if key.is_rsa() {
            // Older TLS encrypts to an RSA key instead of signing with it.
            params.key_usages.push(KeyUsagePurpose::KeyEncipherment);
        }
        params.extended_key_usages = self
            .usages
            .iter()
            .map(|usage| match usage {
                Usage::Server => ExtendedKeyUsagePurpose::ServerAuth,
                Usage::Client => ExtendedKeyUsagePurpose::ClientAuth,
            })
            .collect();
        Ok(params)
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Server => "server",
            Self::Client => "client",
        })
    }
}

/// From when to when, in whole seconds, which is all a certificate can say.
#[derive(Clone, Copy)]
pub(crate) struct Validity {
    not_before: i64,
    not_after: i64,
}

impl Validity {
    /// From shortly before `now` for `lifetime`, but not beyond `end`.
    pub(crate) fn starting(
        now: Timestamp,
        lifetime: Duration,
        end: Option<Timestamp>,
    ) -> Result<Self, Error> {
        let too_long = || Error::Lifetime { from: now, seconds: lifetime.as_secs() };
        let until = SignedDuration::try_from(lifetime)
            .ok()
            .and_then(|lifetime| now.checked_add(lifetime).ok())
            .ok_or_else(too_long)?;
        let until = end.map_or(until, |end| end.min(until));
        let not_before = now.as_second().saturating_sub_unsigned(BACKDATE.as_secs());
        // Before 1970 the clock is broken, not early.
        if not_before < 0 || until <= now {
            return Err(too_long());
        }
        Ok(Self { not_before, not_after: until.as_second() })
    }
}

/// What every certificate has in common: serial, validity, a placeholder subject and a link to the authority's key.
pub(crate) fn draft_params(validity: Validity) -> Result<CertificateParams, Error> {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let at = |seconds: i64| epoch + Duration::from_secs(seconds.unsigned_abs());
    let mut params = CertificateParams::default();
    params.not_before = at(validity.not_before);
    params.not_after = at(validity.not_after);
    params.serial_number = Some(random_serial()?);
    // Replaced before signing. It must not be empty: then the names would be marked critical.
    params.distinguished_name.push(DnType::CommonName, "draft");
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// 127 random bits: unpredictable, as browsers' rules ask for, positive, and never shorter than the full length.
fn random_serial() -> Result<SerialNumber, Error> {
    let mut bytes = [0_u8; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|error| Error::Crypto { action: "drawing a serial number", reason: error.to_string() })?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}
