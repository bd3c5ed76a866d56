//! Who is on the other end of a connection, and whether it may be.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use pilothouse_pki::{AlternativeName, Certificate, Fingerprint};
use serde::{Deserialize, Serialize};

/// The names of peers that may call a listener: a certificate's DNS name, URI or common name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedCallers(BTreeSet<String>);

/// Whom a verified client certificate speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    common_name: String,
    organizations: Vec<String>,
    names: BTreeSet<AlternativeName>,
    fingerprint: Fingerprint,
    not_after: Timestamp,
}

/// The other end of a connection. A request extension on everything a [`Listener`](crate::Listener) serves.
#[derive(Clone, Debug)]
pub struct Peer {
    address: SocketAddr,
    identity: Option<Arc<PeerIdentity>>,
}

impl AllowedCallers {
    /// Only peers with one of these names.
    pub fn new<I>(names: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self(names.into_iter().map(Into::into).collect())
    }

    /// Whether a peer may call. An empty list lets nobody in.
    pub fn admit(&self, identity: &PeerIdentity) -> bool {
        self.0.contains(&identity.common_name)
            || identity.names.iter().any(|name| match name {
                AlternativeName::Dns(name) | AlternativeName::Uri(name) => self.0.contains(name),
                // An address says where a peer is, not who it is.
                _ => false,
            })
    }
}

impl PeerIdentity {
    /// What a certificate says. It is up to the caller that it was verified.
    pub fn of(certificate: &Certificate) -> Self {
        Self {
            common_name: certificate.subject().common_name().to_owned(),
            organizations: certificate.subject().organizations().to_vec(),
            names: certificate.names().clone(),
            fingerprint: certificate.fingerprint(),
            not_after: certificate.not_after(),
        }
    }

    /// Which certificate it is, of those with the same names.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// When its time is over.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// The common name: to Kubernetes, the user.
    pub fn common_name(&self) -> &str {
        &self.common_name
    }

    /// The organizations: to Kubernetes, the groups.
    pub fn organizations(&self) -> &[String] {
        &self.organizations
    }

    /// The names it may be reached under.
    pub fn names(&self) -> &BTreeSet<AlternativeName> {
        &self.names
    }
}

impl fmt::Display for PeerIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.common_name)
    }
}

impl Peer {
    pub(crate) fn new(address: SocketAddr, identity: Option<PeerIdentity>) -> Self {
        Self { address, identity: identity.map(Arc::new) }
    }

    /// Where the connection comes from.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whom it speaks for, if it showed a certificate.
    pub fn identity(&self) -> Option<&PeerIdentity> {
        self.identity.as_deref()
    }
}
