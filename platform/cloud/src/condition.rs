//! What must hold of a resource for a request to be carried out.

use http::HeaderMap;
use pilothouse_arm::ResourceId;
use pilothouse_arm::header::{IF_MATCH, IF_NONE_MATCH};
use pilothouse_store::Etag;

use crate::refusal::Refusal;

/// What whoever asks expects to find. Who makes something says that it must not be there yet, and who changes or removes
/// something that it must still be what was read: so nobody touches what somebody else made under the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Whatever is there, or nothing.
    Any,
    /// Nothing.
    Absent,
    /// Something.
    Present,
    /// This state of it.
    Etag(Etag),
}

impl Condition {
    /// What the headers of a request say.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let given = |name: &'static str| -> Result<Option<&str>, Refusal> {
            let value = headers.get(name).map(|value| value.to_str());
            value.transpose().map_err(|_| Refusal::Condition(name))
        };
        match (given(IF_NONE_MATCH)?, given(IF_MATCH)?) {
            (None, None) => Ok(Self::Any),
            (Some("*"), None) => Ok(Self::Absent),
            (None, Some("*")) => Ok(Self::Present),
            (None, Some(etag)) => Ok(Self::Etag(Etag::from_text(etag.trim_matches('"')))),
            (Some(_), _) => Err(Refusal::Condition(IF_NONE_MATCH)),
        }
    }

    /// Whether it holds of what was found.
    pub(crate) fn check(&self, id: &ResourceId, found: Option<&Etag>) -> Result<(), Refusal> {
        match (self, found) {
            (Self::Absent, Some(_)) => Err(Refusal::Exists(id.clone())),
            (Self::Present | Self::Etag(_), None) => Err(Refusal::Gone(id.clone())),
            (Self::Etag(expected), Some(found)) if expected != found => Err(Refusal::Changed(id.clone())),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_what_must_hold() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            Condition::of(&pairs.collect())
        };
        assert_eq!(of(&[]).unwrap(), Condition::Any);
        assert_eq!(of(&[(IF_NONE_MATCH, "*")]).unwrap(), Condition::Absent);
        assert_eq!(of(&[(IF_MATCH, "*")]).unwrap(), Condition::Present);
        assert_eq!(of(&[(IF_MATCH, "\"1-2\"")]).unwrap(), Condition::Etag(Etag::from_text("1-2")));
        for nonsense in [&[(IF_NONE_MATCH, "1-2")][..], &[(IF_NONE_MATCH, "*"), (IF_MATCH, "*")]] {
            assert!(matches!(of(nonsense), Err(Refusal::Condition(IF_NONE_MATCH))));
        }
    }
}
