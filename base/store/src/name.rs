//! The names a document goes by. Each is its own type, so that no call can swap two strings, and each is
//! checked once, where it enters: an engine may rely on what it is given.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Error;

/// What a transaction is atomic over and a revision is ordered in: a subscription, or the space of one
/// embedded Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Partition(Arc<str>);

/// The name of a document within its container and partition. Lists are in the order of its bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DocumentId(Arc<str>);

/// What a lease is on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LeaseName(Arc<str>);

/// Sorts behind every character a name may have, so that `prefix + LAST` bounds a range of names. It is a
/// Unicode noncharacter, which names therefore must not contain.
pub(crate) const LAST: char = char::MAX;

// === impl ===

/// Common to all engines: PostgreSQL's text has no NUL, control characters make logs unreadable, and a
/// B-tree key has a size limit.
fn checked(what: &'static str, text: &str, longest: usize) -> Result<Arc<str>, Error> {
    let problem = if text.is_empty() {
        "it is empty".to_owned()
    } else if text.len() > longest {
        format!("it has {} bytes, {longest} are allowed", text.len())
    } else if let Some(character) = text.chars().find(|c| c.is_control() || *c == LAST) {
        format!("it contains the character {character:?}")
    } else {
        return Ok(text.into());
    };
    Err(Error::Invalid { what: format!("{what} {text:?}"), problem })
}

macro_rules! name {
    ($type:ident, $what:literal, $longest:literal) => {
        impl $type {
            /// The longest name allowed, in bytes.
            pub const LONGEST: usize = $longest;

            /// Checks and takes a name: not empty, not too long, no control characters.
            pub fn try_new(text: impl AsRef<str>) -> Result<Self, Error> {
                checked($what, text.as_ref(), Self::LONGEST).map(Self)
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $type {
            type Error = Error;
            fn try_from(text: String) -> Result<Self, Error> {
                Self::try_new(text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0.as_ref().to_owned()
            }
        }
    };
}

name!(Partition, "partition", 256);
name!(DocumentId, "document id", 1024);
name!(LeaseName, "lease name", 256);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_an_engine_could_not_keep_are_refused_with_the_reason() {
        for (text, reason) in [
            ("", "it is empty"),
            ("a\0b", "it contains the character '\\0'"),
            ("a\nb", "it contains the character '\\n'"),
            ("a\u{10FFFF}", "it contains the character '\\u{10ffff}'"),
            (&"x".repeat(257), "it has 257 bytes, 256 are allowed"),
        ] {
            let error = Partition::try_new(text).unwrap_err();
            assert!(error.to_string().ends_with(reason), "{error}");
        }
        assert!(Partition::try_new("11111111-2222/Gruppe ä,'\"").is_ok());
    }
}
