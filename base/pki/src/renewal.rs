//! When a certificate has to be replaced, and why.

use std::collections::BTreeSet;
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::{AlternativeName, Certificate, KeyAlgorithm, LeafRequest, Subject, Usage};

/// Renewal starts at this share of the lifetime at the earliest, in thousandths…
const EARLIEST: u64 = 600;
/// …and is spread over this much. A fifth is left for a renewal that fails for a while.
const SPREAD: u64 = 200;

/// What a certificate is held against: the request it should answer, and the authority that should have signed it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// What it should say.
    pub request: &'a LeafRequest,
    /// Who signs now.
    pub authority: &'a Certificate,
}

/// Why a certificate has to be replaced. Prints as the end of a sentence that starts "renewed, because".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RenewalReason {
    /// It is no longer valid.
    Expired {
        /// The end of its validity.
        at: Timestamp,
    },
    /// Its time for renewal has come.
    Due {
        /// The instant from [`Certificate::renew_at`].
        since: Timestamp,
    },
    /// It is about somebody else.
    Subject {
        /// What the certificate says.
        has: Subject,
        /// What it should say.
        wanted: Subject,
    },
    /// It carries other names.
    Names {
        /// Wanted, but not in the certificate.
        missing: BTreeSet<AlternativeName>,
        /// In the certificate, but no longer wanted.
        surplus: BTreeSet<AlternativeName>,
    },
    /// It may be used for other things than it should.
    Usages {
        /// What it should be good for.
        wanted: BTreeSet<Usage>,
    },
    /// It has another kind of key.
    KeyAlgorithm {
        /// What it should have.
        wanted: KeyAlgorithm,
    },
    /// Another authority signed it.
    Authority {
        /// The common name of the one that signs now.
        wanted: String,
    },
}

impl Certificate {
    /// When to renew: between 60 and 80 per cent of the lifetime, at a point that only depends on the certificate.
    pub fn renew_at(&self) -> Timestamp {
        let lifetime = self.not_after().duration_since(self.not_before()).as_secs().unsigned_abs();
        let share = u128::from(EARLIEST + self.fingerprint().as_number() % SPREAD);
        let offset = u128::from(lifetime) * share / 1000;
        let offset = SignedDuration::from_secs(i64::try_from(offset).unwrap_or(i64::MAX));
        // Less than the lifetime, so it lies before an end that could be represented.
        self.not_before().checked_add(offset).unwrap_or_else(|_| self.not_after())
    }

    /// Whether to replace the certificate at `now`, and why. Differences come before age: they cannot wait.
    pub fn needs_renewal(&self, now: Timestamp, wanted: Wanted<'_>) -> Option<RenewalReason> {
        let Wanted { request, authority } = wanted;
        if now > self.not_after() {
            return Some(RenewalReason::Expired { at: self.not_after() });
        }
        if !self.is_signed_by(authority) {
            let wanted = authority.subject().common_name().to_owned();
            return Some(RenewalReason::Authority { wanted });
        }
        if !same_subject(self.subject(), request.subject()) {
            return Some(RenewalReason::Subject {
                has: self.subject().clone(),
                wanted: request.subject().clone(),
            });
        }
        if self.names() != request.names() {
            return Some(RenewalReason::Names {
                missing: request.names() - self.names(),
                surplus: self.names() - request.names(),
            });
        }
        if self.usages() != request.usages() {
            return Some(RenewalReason::Usages { wanted: request.usages().clone() });
        }
        if self.key_algorithm() != Some(request.key_algorithm()) {
            return Some(RenewalReason::KeyAlgorithm { wanted: request.key_algorithm() });
        }
        let since = self.renew_at();
        (now >= since).then_some(RenewalReason::Due { since })
    }
}

/// Groups are a set: their order in a certificate means nothing.
fn same_subject(has: &Subject, wanted: &Subject) -> bool {
    let groups = |subject: &Subject| subject.organizations().iter().cloned().collect::<BTreeSet<_>>();
    has.common_name() == wanted.common_name() && groups(has) == groups(wanted)
}

impl fmt::Display for RenewalReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { at } => write!(formatter, "it expired at {at}"),
            Self::Due { since } => write!(formatter, "it is due since {since}"),
            Self::Subject { has, wanted } => write!(formatter, "it is about `{has}` instead of `{wanted}`"),
            Self::Names { missing, surplus } => {
                write!(formatter, "its names differ (missing: {}; surplus: {})", list(missing), list(surplus))
            }
            Self::Usages { wanted } => write!(formatter, "it should be good for: {}", list(wanted)),
            Self::KeyAlgorithm { wanted } => write!(formatter, "its key should be {wanted}"),
            Self::Authority { wanted } => {
                write!(formatter, "it is not signed by the present authority `{wanted}`")
            }
        }
    }
}

fn list<T: fmt::Display>(items: &BTreeSet<T>) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
