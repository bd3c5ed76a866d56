//! Regular expressions.

use std::borrow::Cow;

use regex_lite::Regex;

use super::{Outcome, text};
use crate::error::EvaluationError;
use crate::value::Value;

pub(super) fn call<'a>(
    function: &str,
    regex: Option<&Regex>,
    arguments: &[Value<'a>],
) -> Option<Outcome<'a>> {
    if !matches!(function, "matches" | "find" | "findAll") {
        return None;
    }
    let [subject, pattern, rest @ ..] = arguments else { return None };
    let (subject, pattern) = (text(subject)?, text(pattern)?);
    let regex = match regex {
        Some(regex) => Cow::Borrowed(regex),
        None => match Regex::new(pattern) {
            Ok(regex) => Cow::Owned(regex),
            Err(error) => return Some(Err(EvaluationError::failed(format!("Illegal regex: {error}")))),
        },
    };
    Some(Ok(match (function, rest) {
        ("matches", []) => Value::Bool(regex.is_match(subject)),
        ("find", []) => Value::text(regex.find(subject).map(|found| found.as_str()).unwrap_or_default()),
        ("findAll", []) => super::texts(regex.find_iter(subject).map(|found| found.as_str().to_owned())),
        ("findAll", [Value::Int(limit)]) => {
            let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
            super::texts(regex.find_iter(subject).take(limit).map(|found| found.as_str().to_owned()))
        }
        _ => return None,
    }))
}
