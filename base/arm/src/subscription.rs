use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A subscription: what resources, quota and permissions are held by. Its text is lower-case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SubscriptionId(Uuid);

/// A subscription id is a UUID; this was not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a subscription id; it has the form 00000000-0000-0000-0000-000000000000")]
pub struct MalformedSubscriptionId(String);

impl SubscriptionId {
    /// The subscription of this UUID.
    pub const fn new(id: Uuid) -> Self {
        Self(id)
    }
}

impl FromStr for SubscriptionId {
    type Err = MalformedSubscriptionId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The parser also takes forms without hyphens or with braces, which would be one subscription by many names.
        match Uuid::try_parse(text) {
            Ok(id) if text.len() == 36 => Ok(Self(id)),
            _ => Err(MalformedSubscriptionId(text.to_owned())),
        }
    }
}

impl fmt::Display for SubscriptionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_has_one_spelling() {
        let id: SubscriptionId = "0B1F6471-1BF0-4DDA-AEC3-CB9272F09590".parse().unwrap();
        assert_eq!(id.to_string(), "0b1f6471-1bf0-4dda-aec3-cb9272f09590");
        for text in ["", "sub", "0b1f64711bf04ddaaec3cb9272f09590", "{0b1f6471-1bf0-4dda-aec3-cb9272f09590}"]
        {
            assert!(text.parse::<SubscriptionId>().is_err(), "{text}");
        }
    }
}
