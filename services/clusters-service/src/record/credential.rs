//! A credential for a cluster's administrator as it is stored.
//!
//! The only secret in these documents is the key, where it was made here; it is sealed before it reaches the database,
//! and forgotten as soon as the credential opens nothing any more.

use std::time::Duration;

use jiff::Timestamp;
use pilothouse_clusters_service_api::{BreakGlassCredential, BreakGlassCredentialStatus, Secret};
use pilothouse_pki::Certificate;
use serde::{Deserialize, Serialize};

use super::{Origin, SCHEMA};

/// How long a certificate is good, at most: nothing is asked of the signer that is good for longer.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// And at least: no cluster signs anything for less.
pub(crate) const SHORTEST: Duration = Duration::from_secs(10 * 60);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CredentialRecord {
    schema: u32,
    /// What the API shows. The kubeconfig is put together when it is asked for.
    pub(crate) credential: BreakGlassCredential,
    /// What asked for it.
    pub(crate) origin: Origin,
    /// When it was asked for.
    pub(crate) created_at: Timestamp,
    /// Until when it was asked for to be good, if somebody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) good_until: Option<Timestamp>,
    /// What is to be signed, PEM.
    pub(crate) request: String,
    /// The key, PEM; none if it stayed with whoever asked, and none once the credential is over.
    pub(crate) key: Option<Secret>,
    /// What came back.
    pub(crate) signed: Option<Signed>,
    /// Whether nothing of it is left on the management cluster.
    #[serde(default)]
    pub(crate) cleared: bool,
    /// Since when it opens nothing any more.
    #[serde(default)]
    pub(crate) over_since: Option<Timestamp>,
}

/// What a management cluster made of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Signed {
    /// The certificate and those above it, PEM.
    pub(crate) certificate: String,
    /// The URL of the API server.
    pub(crate) server: String,
    /// The name in that server's certificate, where it is not the host of the URL.
    pub(crate) tls_server_name: Option<String>,
    /// The authorities that may have signed that certificate, PEM.
    pub(crate) authorities: String,
}

/// That everything a cluster's signer has signed is to be worthless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Revocation {
    /// Tells it from all others of the cluster.
    pub(crate) id: String,
    /// Its time counts from here.
    pub(crate) requested_at: Timestamp,
    /// Every replica of the API server was seen to refuse what was signed before.
    pub(crate) done: bool,
}

impl CredentialRecord {
    pub(crate) fn new(
        credential: BreakGlassCredential,
        origin: Origin,
        request: String,
        key: Option<Secret>,
        now: Timestamp,
    ) -> Self {
        Self {
            schema: SCHEMA,
            credential,
            origin,
            created_at: now,
            good_until: None,
            request,
            key,
            signed: None,
            cleared: false,
            over_since: None,
        }
    }

    /// How long the certificate is to be good.
    pub(crate) fn lifetime(&self) -> Duration {
        let asked = self.good_until.map(|end| end.duration_since(self.created_at));
        asked.and_then(|asked| Duration::try_from(asked).ok()).map_or(LONGEST, |asked| asked.min(LONGEST))
    }

    /// When its certificate was signed, or a little earlier: signers let certificates begin in the past, and may give less time
    /// than was asked for.
    pub(crate) fn signed_at(&self) -> Option<Timestamp> {
        let certificate =
            self.signed.as_ref().map(|signed| Certificate::from_pem(signed.certificate.as_bytes()));
        let begins = certificate.and_then(Result::ok).map(|certificate| certificate.not_before());
        let ends = self.credential.expiration_timestamp;
        let counted = ends.and_then(|end| end.checked_sub(self.lifetime()).ok());
        begins.max(counted)
    }

    /// Whether it opens something, or may yet.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(
            self.credential.status,
            BreakGlassCredentialStatus::Created | BreakGlassCredentialStatus::Issued
        )
    }

    /// Whether its time is over.
    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.credential.expiration_timestamp.is_some_and(|end| end <= now)
    }

    /// It opens nothing from now on, so nothing that could is kept.
    pub(crate) fn end(
        &mut self,
        status: BreakGlassCredentialStatus,
        message: impl Into<String>,
        now: Timestamp,
    ) {
        self.credential.status = status;
        self.credential.message = message.into();
        self.key = None;
        self.signed = None;
        self.over_since = Some(now);
    }

    /// Whether a change from `before` is one that the controller has to act on, rather than its own.
    pub(crate) fn asks_for_work(&self, before: &Self) -> bool {
        let awaits =
            |record: &Self| record.credential.status == BreakGlassCredentialStatus::AwaitingRevocation;
        awaits(self) && !awaits(before)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pilothouse_pki::{Authority, AuthorityRequest, LeafRequest, Subject};
    use pilothouse_runtime::Clock;

    use super::*;

    #[test]
    fn a_certificate_that_is_cut_short_was_not_signed_before_it_begins() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let (clock, _) = Clock::manual(now);
        let credential = BreakGlassCredential {
            kind: "BreakGlassCredential".into(),
            id: "0123456789abcdef".parse().unwrap(),
            href: String::new(),
            cluster_id: "0123456789abcdefghijklmnopqrstuv".parse().unwrap(),
            username: String::new(),
            expiration_timestamp: None,
            revocation_timestamp: None,
            kubeconfig: None,
            status: BreakGlassCredentialStatus::Issued,
            message: String::new(),
            properties: BTreeMap::new(),
        };
        let mut record = CredentialRecord::new(credential, Origin::default(), String::new(), None, now);
        assert_eq!((record.lifetime(), record.signed_at()), (LONGEST, None));
        let name = || Subject::try_new("somebody").unwrap();
        let authority = Authority::self_signed(&AuthorityRequest::new(name()), &clock).unwrap();
        let hour = Duration::from_secs(60 * 60);
        let identity = authority.issue(&LeafRequest::client(name()).with_lifetime(hour), &clock).unwrap();
        record.credential.expiration_timestamp = Some(identity.certificate().not_after());
        // As it says itself, once that is known, rather than a day before its end.
        assert_eq!(record.signed_at(), now.checked_sub(Duration::from_secs(23 * 60 * 60)).ok());
        record.signed = Some(Signed {
            certificate: identity.certificate().to_pem(),
            server: String::new(),
            tls_server_name: None,
            authorities: String::new(),
        });
        assert_eq!(record.signed_at(), Some(identity.certificate().not_before()));
        // It was signed when it ends that long after, and begins earlier to be on the safe side.
        record.good_until = now.checked_add(hour).ok();
        assert_eq!((record.lifetime(), record.signed_at()), (hour, Some(now)));
    }
}
