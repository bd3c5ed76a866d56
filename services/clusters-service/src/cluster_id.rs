//! Ids of clusters.

use pilothouse_clusters_service_api::ClusterId;
use rand::Rng as _;

use crate::error::Impossible;

/// Five bits a character, so that an id has 160 and never repeats.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// A fresh id.
pub(crate) fn random() -> Result<ClusterId, Impossible> {
    let mut generator = rand::rng();
    let text: String = (0..ClusterId::LENGTH)
        .map(|_| char::from(ALPHABET[generator.random_range(0..ALPHABET.len())]))
        .collect();
    text.parse().map_err(|_| Impossible("a random id is not an id"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_valid_and_differ() {
        let ids: HashSet<_> = (0..1000).map(|_| random().unwrap()).collect();
        assert_eq!(ids.len(), 1000);
    }
}
