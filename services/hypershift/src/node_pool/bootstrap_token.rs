//! The token that lets the workers of a pool into their cluster.
//!
//! It is kept in a Secret beside the control plane and made known to the hosted cluster, which removes it when its time is over. Long before
//! that there is another one, so that whatever a worker reads is good when it starts.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rand::Rng as _;

/// Where a cluster looks for tokens.
pub(super) const NAMESPACE: &str = "kube-system";
/// The key of the token, in the Secret beside the control plane.
pub(super) const TOKEN: &str = "token";
/// When it ends, in the same.
pub(super) const EXPIRATION: &str = "expiration";

const LIFETIME: Duration = Duration::from_secs(11 * 60 * 60);
/// A token with less than this left is replaced.
const REPLACED: Duration = Duration::from_secs(11 * 30 * 60);

const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

/// A token and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    id: String,
    secret: String,
    expiration: Timestamp,
}

// === impl Token ===

impl Token {
    /// A new one.
    pub(super) fn draw(now: Timestamp) -> Self {
        let alphabet = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let mut generator = rand::rng();
        let mut word = |length: usize| -> String {
            (0..length).map(|_| char::from(alphabet[generator.random_range(0..alphabet.len())])).collect()
        };
        // Whole seconds, as it is written down.
        let end = now.as_second().saturating_add(i64::try_from(LIFETIME.as_secs()).unwrap_or(i64::MAX));
        Self {
            id: word(ID_LENGTH),
            secret: word(SECRET_LENGTH),
            expiration: Timestamp::from_second(end).unwrap_or(Timestamp::MAX),
        }
    }

    /// The one that a Secret holds, if it makes sense.
    pub(super) fn read(secret: &Secret) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| std::str::from_utf8(&data.get(key)?.0).ok();
        let (id, secret) = text(TOKEN)?.split_once('.')?;
        let expiration = text(EXPIRATION)?.parse().ok()?;
        let fits = id.len() == ID_LENGTH && secret.len() == SECRET_LENGTH;
        fits.then(|| Self { id: id.to_owned(), secret: secret.to_owned(), expiration })
    }

    /// When it is replaced.
    pub(super) fn replaced_at(&self) -> Timestamp {
        self.expiration - REPLACED
    }

    pub(super) fn is_good(&self, now: Timestamp) -> bool {
        now < self.replaced_at()
    }

    /// As a node shows it.
    pub(super) fn text(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    pub(super) fn expiration(&self) -> String {
        self.expiration.to_string()
    }

    /// What the hosted cluster calls it.
    pub(super) fn hosted_name(&self) -> String {
        format!("bootstrap-token-{}", self.id)
    }

    /// What the hosted cluster knows it by.
    pub(super) fn hosted(&self, pool: &str) -> Secret {
        let data = [
            ("token-id", self.id.clone()),
            ("token-secret", self.secret.clone()),
            ("expiration", self.expiration()),
            ("usage-bootstrap-authentication", "true".to_owned()),
            ("description", format!("lets the nodes of node pool {pool} join")),
        ];
        let data: BTreeMap<_, _> =
            data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes()))).collect();
        Secret {
            metadata: ObjectMeta {
                name: Some(self.hosted_name()),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some("bootstrap.kubernetes.io/token".to_owned()),
            data: Some(data),
            ..Secret::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets;

    #[test]
    fn a_token_is_read_back_and_replaced_while_it_is_still_good() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let token = Token::draw(now);
        let kept = [(TOKEN, token.text().into_bytes()), (EXPIRATION, token.expiration().into_bytes())];
        let secret = secrets::secret(ObjectMeta::default(), "Opaque", kept);
        assert_eq!(Token::read(&secret), Some(token.clone()));
        assert_ne!(Token::draw(now).text(), token.text());
        assert!(token.is_good("2026-01-01T05:29:59Z".parse().unwrap()));
        assert!(!token.is_good("2026-01-01T05:30:00Z".parse().unwrap()));
        assert_eq!(token.expiration(), "2026-01-01T11:00:00Z");
        assert_eq!(Token::read(&Secret::default()), None);
    }
}
