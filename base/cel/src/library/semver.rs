//! Semantic versions: `1.2.3-rc.1+build`.

use std::cmp::Ordering;
use std::rc::Rc;

use super::{Outcome, text};
use crate::error::EvaluationError;
use crate::value::Value;

/// A version. What stands behind `+` tells nothing about which is newer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    numbers: [u64; 3],
    before: Vec<Identifier>,
}

/// One part of what stands behind `-`. Numbers come before words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl Version {
    /// Reads a version; without `lenient`, one that is written exactly as the standard says.
    fn parse(text: &str, lenient: bool) -> Option<Self> {
        let normal = if lenient { normalized(text) } else { text.to_owned() };
        let (rest, build) = match normal.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (normal.as_str(), None),
        };
        let (core, before) = match rest.split_once('-') {
            Some((core, before)) => (core, Some(before)),
            None => (rest, None),
        };
        let word = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if build.is_some_and(|build| !build.split('.').all(word)) {
            return None;
        }
        let mut numbers = core.split('.').map(number);
        let parsed = [numbers.next()??, numbers.next()??, numbers.next()??];
        if numbers.next().is_some() {
            return None;
        }
        let parts = before.into_iter().flat_map(|before| before.split('.'));
        let before = parts
            .map(|part| match part.bytes().all(|byte| byte.is_ascii_digit()) {
                true => number(part).map(Identifier::Number),
                false => word(part).then(|| Identifier::Word(part.to_owned())),
            })
            .collect::<Option<_>>()?;
        Some(Self { numbers: parsed, before })
    }

    pub(crate) fn cmp(&self, other: &Self) -> Ordering {
        // What comes before a version is older than the version itself.
        let finished = |version: &Self| version.before.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| finished(self).cmp(&finished(other)))
            .then_with(|| self.before.cmp(&other.before))
    }
}

/// Digits without zeros in front.
fn number(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (plain && (text.len() == 1 || !text.starts_with('0'))).then(|| text.parse().ok()).flatten()
}

/// `v1.02` as `1.2.0`.
fn normalized(text: &str) -> String {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (core, rest) = text.split_at(end);
    let mut parts: Vec<String> = core
        .splitn(3, '.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0".to_owned(),
            part => part.to_owned(),
        })
        .collect();
    // A version that is cut short has nothing behind it.
    if parts.len() < 3 && !rest.is_empty() {
        return text.to_owned();
    }
    parts.resize(3.max(parts.len()), "0".to_owned());
    format!("{}{rest}", parts.join("."))
}

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Outcome<'a>> {
    if let ("semver" | "isSemver", [subject, rest @ ..]) = (function, arguments) {
        let lenient = matches!(rest, [Value::Bool(true)]);
        let parsed = Version::parse(text(subject)?, lenient);
        return Some(match (function, parsed) {
            ("isSemver", parsed) => Ok(Value::Bool(parsed.is_some())),
            (_, Some(version)) => Ok(Value::Version(Rc::new(version))),
            (_, None) => Err(EvaluationError::failed("No Major.Minor.Patch elements found")),
        });
    }
    let (Value::Version(subject), rest) = arguments.split_first()? else { return None };
    let part = |place: usize| Ok(Value::Int(i64::try_from(subject.numbers[place]).unwrap_or(i64::MAX)));
    Some(match (function, rest) {
        ("major", []) => part(0),
        ("minor", []) => part(1),
        ("patch", []) => part(2),
        ("isGreaterThan", [Value::Version(other)]) => Ok(Value::Bool(subject.cmp(other).is_gt())),
        ("isLessThan", [Value::Version(other)]) => Ok(Value::Bool(subject.cmp(other).is_lt())),
        ("compareTo", [Value::Version(other)]) => Ok(Value::Int(subject.cmp(other) as i64)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_the_standard_says() {
        let order = [
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.1",
            "1.10.0",
        ];
        let parsed: Vec<Version> = order.iter().map(|text| Version::parse(text, false).unwrap()).collect();
        for pair in parsed.windows(2) {
            assert_eq!(pair[0].cmp(&pair[1]), Ordering::Less, "{pair:?}");
        }
        let build = Version::parse("1.0.0+a", false).unwrap();
        assert_eq!(build.cmp(&Version::parse("1.0.0+b", false).unwrap()), Ordering::Equal);
    }

    #[test]
    fn what_is_nearly_a_version_needs_leniency() {
        for text in ["1", "v1.0.0", "1.2", "01.2.3", "v1.02"] {
            assert!(Version::parse(text, false).is_none(), "{text}");
            assert!(Version::parse(text, true).is_some(), "{text}");
        }
        for text in ["", "a.b.c", "1.2.3.4", "1.2.3-", "1.2.3+", "1.2.3-01", "1.2-rc.1", "vv1.0.0"] {
            assert!(Version::parse(text, true).is_none(), "{text}");
        }
    }
}
