//! Conditions on the version of a resource: `If-Match` and `If-None-Match`.

use http::HeaderMap;
use pilothouse_arm::{CloudError, ErrorCode, header};

use crate::answer::Refusal;

/// What must hold of the resource for a request to be carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// It is one of these.
    matches: Option<Tags>,
    /// It is none of these.
    differs: Option<Tags>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Tags {
    /// `*`: any version, as long as there is one.
    Any,
    These(Vec<Tag>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Tag {
    weak: bool,
    text: String,
}

impl Conditions {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        Ok(Self { matches: tags(headers, header::IF_MATCH)?, differs: tags(headers, header::IF_NONE_MATCH)? })
    }

    /// Refuses a write to a resource that is not in the version it is meant for. `current` is none if it does not exist.
    pub(crate) fn allow_write(&self, current: Option<&str>) -> Result<(), Refusal> {
        if !self.matched(current) {
            return Err(failed(header::IF_MATCH));
        }
        if self.is_among(current) { Err(failed(header::IF_NONE_MATCH)) } else { Ok(()) }
    }

    /// Refuses a look at another version than the one that is meant; says whether the caller has this one already.
    pub(crate) fn is_unmodified(&self, current: &str) -> Result<bool, Refusal> {
        if self.matched(Some(current)) {
            Ok(self.is_among(Some(current)))
        } else {
            Err(failed(header::IF_MATCH))
        }
    }

    /// A weak tag promises too little to write by.
    fn matched(&self, current: Option<&str>) -> bool {
        match (&self.matches, current) {
            (None, _) | (Some(Tags::Any), Some(_)) => true,
            (Some(Tags::These(tags)), Some(current)) => {
                tags.iter().any(|tag| !tag.weak && tag.text == current)
            }
            (Some(_), None) => false,
        }
    }

    fn is_among(&self, current: Option<&str>) -> bool {
        match (&self.differs, current) {
            (None, _) | (_, None) => false,
            (Some(Tags::Any), Some(_)) => true,
            (Some(Tags::These(tags)), Some(current)) => tags.iter().any(|tag| tag.text == current),
        }
    }
}

/// The version of a resource, as a header has it.
pub(crate) fn quoted(etag: &str) -> String {
    format!("\"{etag}\"")
}

fn failed(header: &str) -> Refusal {
    let message =
        format!("The resource is not in the version that the header '{header}' asks for; read it again.");
    CloudError::new(ErrorCode::PreconditionFailed, message).with_target(header).into()
}

fn tags(headers: &HeaderMap, name: &'static str) -> Result<Option<Tags>, Refusal> {
    let mut found = None;
    for value in headers.get_all(name) {
        let tags = value.to_str().ok().and_then(parse).ok_or_else(|| {
            let message = format!("The header '{name}' must be '*' or a list of entity tags in quotes.");
            CloudError::new(ErrorCode::InvalidParameter, message).with_target(name)
        })?;
        found = Some(match (found, tags) {
            (None, tags) => tags,
            (Some(Tags::These(mut all)), Tags::These(more)) => {
                all.extend(more);
                Tags::These(all)
            }
            (Some(Tags::Any), _) | (Some(_), Tags::Any) => Tags::Any,
        });
    }
    Ok(found)
}

fn parse(text: &str) -> Option<Tags> {
    let mut rest = text.trim();
    if rest == "*" {
        return Some(Tags::Any);
    }
    let mut tags = Vec::new();
    while !rest.is_empty() {
        let weak = rest.starts_with("W/");
        rest = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
        let (tag, behind) = rest.split_once('"')?;
        tags.push(Tag { weak, text: tag.to_owned() });
        let behind = behind.trim_start();
        // Lists may have empty elements.
        rest = behind.trim_start_matches([',', ' ', '\t']);
        if !rest.is_empty() && !behind.starts_with(',') {
            return None;
        }
    }
    (!tags.is_empty()).then_some(Tags::These(tags))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(name: &'static str, text: &'static str) -> Result<Conditions, Refusal> {
        Conditions::of(&HeaderMap::from_iter([(
            http::HeaderName::from_static(name),
            HeaderValue::from_static(text),
        )]))
    }

    #[test]
    fn writes_are_allowed_to_the_version_they_are_meant_for() {
        // Header, value, the version there is, whether a write may go on.
        for (name, value, current, allowed) in [
            ("if-match", "\"a\"", Some("a"), true),
            ("if-match", "\"a\"", Some("b"), false),
            ("if-match", "\"a\"", None, false),
            ("if-match", "\"x\", \"a\"", Some("a"), true),
            ("if-match", "\"x\",,\"a\" ,", Some("a"), true),
            ("if-match", "W/\"a\"", Some("a"), false),
            ("if-match", "*", Some("a"), true),
            ("if-match", "*", None, false),
            ("if-none-match", "\"a\"", Some("a"), false),
            ("if-none-match", "W/\"a\"", Some("a"), false),
            ("if-none-match", "\"a\"", Some("b"), true),
            ("if-none-match", "\"a\"", None, true),
            ("if-none-match", "*", Some("a"), false),
            ("if-none-match", "*", None, true),
        ] {
            let conditions = of(name, value).unwrap();
            assert_eq!(conditions.allow_write(current).is_ok(), allowed, "{name}: {value} of {current:?}");
        }
    }

    #[test]
    fn what_is_no_list_of_tags_is_refused_rather_than_ignored() {
        for value in ["", "a", "\"a", "a\"", "\"a\" \"b\"", "w/\"a\"", "*, \"a\"", "'a'"] {
            assert!(of("if-match", value).is_err(), "{value}");
        }
    }

    #[test]
    fn a_look_is_spared_the_version_that_is_known() {
        assert!(of("if-none-match", "W/\"a\"").unwrap().is_unmodified("a").unwrap());
        assert!(!of("if-none-match", "\"a\"").unwrap().is_unmodified("b").unwrap());
        assert!(of("if-match", "\"a\"").unwrap().is_unmodified("b").is_err());
        assert!(!Conditions::default().is_unmodified("a").unwrap());
    }
}
