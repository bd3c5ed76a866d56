//! Regular expressions.

use std::borrow::Cow;

use super::{Outcome, text};
use crate::error::EvaluationError;
use crate::pattern::Pattern;
use crate::value::Value;

pub(super) fn call<'a>(
    function: &str,
    regex: Option<&Pattern>,
    arguments: &[Value<'a>],
) -> Option<Outcome<'a>> {
    if !matches!(function, "matches" | "find" | "findAll") {
        return None;
    }
    let [subject, pattern, rest @ ..] = arguments else { return None };
    let (subject, pattern) = (text(subject)?, text(pattern)?);
    let regex = match regex {
        Some(regex) => Cow::Borrowed(regex),
        None => match Pattern::new(pattern) {
            Ok(regex) => Cow::Owned(regex),
            Err(error) => return Some(Err(EvaluationError::failed(error.to_string()))),
        },
    };
    let all = |limit: usize| super::texts(regex.all(subject, limit).into_iter().map(str::to_owned));
    Some(Ok(match (function, rest) {
        ("matches", []) => Value::Bool(regex.is_match(subject)),
        ("find", []) => Value::text(regex.all(subject, 1).first().copied().unwrap_or_default()),
        ("findAll", []) => all(usize::MAX),
        ("findAll", [Value::Int(limit)]) => all(usize::try_from(*limit).unwrap_or(usize::MAX)),
        _ => return None,
    }))
}
