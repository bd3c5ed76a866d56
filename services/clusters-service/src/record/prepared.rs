//! What the cloud's resources turned out to be, as far as manifests need it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_clusters_service_api::Secret;
use serde::{Deserialize, Serialize};

/// Written together with the news that the cloud is prepared: manifests are made of it. Only what identities are known by is
/// ever changed, when one had to be made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Prepared {
    /// The name of the cluster's vault.
    pub(crate) vault: String,
    /// What identities are known by, by whom they are for.
    pub(crate) client_ids: BTreeMap<String, String>,
    /// What the cluster's secrets are encrypted with where they are stored, in base64; none if the customer has the key. It is
    /// sealed before it reaches the database.
    #[serde(default)]
    pub(crate) encryption_key: Option<Secret>,
}

/// How long a key is, in bytes.
pub(crate) const KEY: usize = 32;

/// The bytes of a key; none if it is no key.
pub(crate) fn key_bytes(key: &Secret) -> Option<Vec<u8>> {
    STANDARD.decode(key.expose()).ok().filter(|bytes| bytes.len() == KEY)
}

/// A key that nobody has had.
pub(crate) fn new_key() -> Secret {
    Secret::new(STANDARD.encode(rand::random::<[u8; KEY]>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_32_bytes_and_are_not_shown() {
        let key = new_key();
        assert_eq!(key_bytes(&key).unwrap().len(), KEY);
        assert_ne!(key, new_key());
        assert_eq!(key_bytes(&Secret::new("no key")), None);
        assert_eq!(key_bytes(&Secret::new(STANDARD.encode([0; 31]))), None);
        let prepared =
            Prepared { vault: "v".into(), client_ids: BTreeMap::new(), encryption_key: Some(key.clone()) };
        assert!(!format!("{prepared:?}").contains(key.expose()));
    }
}
