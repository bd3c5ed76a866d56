//! The label below the base domain: the name of the `HostedCluster`, and part of its host name.
//!
//! Prefixes are unique in the region. Which one a cluster gets is decided in the transaction that creates it; here
//! is only which ones may be tried.

use rand::Rng as _;

/// A namespace `ocm-<env>-<id>-<prefix>` has to fit into 63 characters.
pub(crate) const LONGEST: usize = 15;
/// How much of a name is kept when it gets a random ending.
const KEPT: usize = 10;
const RANDOM: usize = 4;
/// Without look-alikes: people read prefixes to one another.
const ALPHABET: &[u8] = b"23456789abcdefghjkmnpqrstuvwxyz";

/// Whether this may be a prefix: `^[a-z]([-a-z0-9]*[a-z0-9])?$`, at most 15 characters.
pub(crate) fn is_valid(prefix: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LONGEST).contains(&prefix.len())
        && prefix.bytes().all(inner)
        && prefix.starts_with(|first: char| first.is_ascii_lowercase())
        && !prefix.ends_with('-')
}

/// The prefix a name stands for by itself, if it can.
pub(crate) fn of_name(name: &str) -> Option<String> {
    Some(name.to_lowercase()).filter(|name| is_valid(name))
}

/// The beginning of a name with a random ending, for names that are too long or taken.
pub(crate) fn random(name: &str) -> String {
    let mut generator = rand::rng();
    let ending: String =
        (0..RANDOM).map(|_| char::from(ALPHABET[generator.random_range(0..ALPHABET.len())])).collect();
    format!("{}-{ending}", beginning(name))
}

fn beginning(name: &str) -> String {
    let usable: String = name
        .to_lowercase()
        .chars()
        .filter(|character| character.is_ascii_lowercase() || character.is_ascii_digit() || *character == '-')
        .skip_while(|character| !character.is_ascii_lowercase())
        .take(KEPT)
        .collect();
    let usable = usable.trim_end_matches('-');
    if usable.is_empty() { "cluster".to_owned() } else { usable.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_follow_the_rule() {
        for (prefix, valid) in [
            ("a", true),
            ("first", true),
            ("a-1", true),
            ("exactly15chars1", true),
            ("sixteen-letters1", false),
            ("", false),
            ("1a", false),
            ("-a", false),
            ("a-", false),
            ("A", false),
            ("a.b", false),
            ("ä", false),
        ] {
            assert_eq!(is_valid(prefix), valid, "{prefix}");
        }
    }

    #[test]
    fn a_name_is_its_own_prefix_if_it_fits() {
        assert_eq!(of_name("First"), Some("first".to_owned()));
        assert_eq!(of_name("a-name-that-is-too-long"), None);
    }

    #[test]
    fn random_prefixes_keep_ten_characters_and_are_valid() {
        for (name, beginning) in [
            ("a-name-that-is-too-long", "a-name-tha-"),
            ("nine-char-name", "nine-char-"),
            ("First", "first-"),
            ("42", "cluster-"),
        ] {
            let prefix = random(name);
            assert!(is_valid(&prefix), "{prefix}");
            assert!(prefix.starts_with(beginning), "{prefix}");
        }
        assert_ne!(random("first"), random("first"));
    }
}
