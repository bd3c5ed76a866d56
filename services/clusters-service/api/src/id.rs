use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The service's own id of a cluster: 32 characters, not the ARM resource id. Part of names in the management
/// cluster, hence lower-case letters and digits only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterId(String);

/// The id of a node pool within its cluster: its ARM name in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodePoolId(String);

/// The id of an external auth within its cluster: its ARM name in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ExternalAuthId(String);

/// The service's own id of a credential within its cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BreakGlassCredentialId(String);

/// A text that is no id of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct InvalidId {
    text: String,
    expected: &'static str,
}

// === impl ClusterId ===

impl ClusterId {
    /// How many characters it has.
    pub const LENGTH: usize = 32;

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClusterId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let valid = text.len() == Self::LENGTH
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if valid {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidId { text: text.to_owned(), expected: "a cluster id of 32 lower-case letters and digits" })
    }
}

// === impl NodePoolId ===

impl NodePoolId {
    /// The longest it may be.
    pub const LONGEST: usize = 15;

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodePoolId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if is_short_name(text) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidId {
            text: text.to_owned(),
            expected: "a node pool id: at most 15 lower-case letters, digits and hyphens, beginning with a letter \
                       and not ending with a hyphen",
        })
    }
}

// === impl ExternalAuthId ===

impl ExternalAuthId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ExternalAuthId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if is_short_name(text) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidId {
            text: text.to_owned(),
            expected: "an external auth id: at most 15 lower-case letters, digits and hyphens, beginning with a letter \
                       and not ending with a hyphen",
        })
    }
}

// === impl BreakGlassCredentialId ===

impl BreakGlassCredentialId {
    /// The longest it may be.
    pub const LONGEST: usize = 64;

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BreakGlassCredentialId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let valid = (1..=Self::LONGEST).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if valid {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidId {
            text: text.to_owned(),
            expected: "a credential id of at most 64 lower-case letters, digits and hyphens",
        })
    }
}

/// What ARM's names of node pools and external auths are in lower case.
fn is_short_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= NodePoolId::LONGEST
        && text.bytes().all(inner)
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && !text.ends_with('-')
}

macro_rules! text {
    ($type:ident) => {
        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(id: $type) -> Self {
                id.0
            }
        }
    };
}

text!(ClusterId);
text!(NodePoolId);
text!(ExternalAuthId);
text!(BreakGlassCredentialId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_fit_into_names_of_the_management_cluster_or_are_refused() {
        assert!("0123456789abcdefghijklmnopqrstuv".parse::<ClusterId>().is_ok());
        for text in ["", "short", "0123456789ABCDEFGHIJKLMNOPQRSTUV", "0123456789abcdefghijklmnopqrst/v"] {
            assert!(text.parse::<ClusterId>().is_err(), "{text}");
        }
        for text in ["a", "workers", "np-1"] {
            assert!(text.parse::<NodePoolId>().is_ok(), "{text}");
            assert!(text.parse::<ExternalAuthId>().is_ok(), "{text}");
        }
        for text in ["", "1a", "np-", "NP", "a_b", "sixteencharacter"] {
            assert!(text.parse::<NodePoolId>().is_err(), "{text}");
            assert!(text.parse::<ExternalAuthId>().is_err(), "{text}");
        }
        assert!("0123456789abcdef".parse::<BreakGlassCredentialId>().is_ok());
        for text in ["", "a/b", "A"] {
            assert!(text.parse::<BreakGlassCredentialId>().is_err(), "{text}");
        }
    }
}
