//! Searching: fields that equal texts or come behind them, joined by `and`. More is not known to be asked for.

use std::cmp::Ordering;

use serde::Serialize;
use serde_json::Value;

use super::refusal::Refusal;

/// A field and what it must be.
pub(super) struct Condition {
    field: String,
    comparison: Ordering,
    value: String,
}

/// All of them must hold; none for an empty text.
pub(super) fn parse(text: &str) -> Result<Vec<Condition>, Refusal> {
    let wrong = || {
        Refusal::query(
            "search",
            "only `field = 'text'`, `field > 'text'`, or a bare `true` or `false`, joined by `and`, is simulated",
        )
    };
    let mut conditions = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let sign = rest.find(['=', '>']).ok_or_else(wrong)?;
        let comparison = if rest[sign..].starts_with('=') { Ordering::Equal } else { Ordering::Greater };
        let (field, behind) = (rest[..sign].trim(), &rest[sign + 1..]);
        if field.is_empty()
            || !field.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte))
        {
            return Err(wrong());
        }
        let behind = behind.trim_start();
        let (value, behind) = quoted(behind).or_else(|| boolean(behind)).ok_or_else(wrong)?;
        conditions.push(Condition { field: field.to_owned(), comparison, value });
        rest = behind.trim();
        if rest.is_empty() {
            break;
        }
        let joined = rest.get(..4).filter(|word| word.eq_ignore_ascii_case("and ")).ok_or_else(wrong)?;
        rest = rest[joined.len()..].trim_start();
        if rest.is_empty() {
            return Err(wrong());
        }
    }
    Ok(conditions)
}

/// A text in single quotes, in which two stand for one, and what is behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text.strip_prefix('\'')?;
    loop {
        let (before, behind) = rest.split_once('\'')?;
        value.push_str(before);
        match behind.strip_prefix('\'') {
            Some(further) => {
                value.push('\'');
                rest = further;
            }
            None => return Some((value, behind)),
        }
    }
}

/// `true` or `false`, and what is behind it.
fn boolean(text: &str) -> Option<(String, &str)> {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, behind) = text.split_at(end);
    matches!(word, "true" | "false").then(|| (word.to_owned(), behind))
}

pub(super) fn matches(conditions: &[Condition], item: &impl Serialize) -> bool {
    if conditions.is_empty() {
        return true;
    }
    let item = serde_json::to_value(item).unwrap_or_default();
    conditions.iter().all(|condition| {
        let found = condition.field.split('.').try_fold(&item, |value, name| value.get(name));
        match found {
            Some(Value::String(text)) => text.cmp(&condition.value) == condition.comparison,
            Some(Value::Null) | None => false,
            Some(Value::Bool(found)) => condition.value == if *found { "true" } else { "false" },
            Some(_) => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn comparisons_joined_by_and_are_understood_and_nothing_else() {
        let item = json!({"name": "a'b", "azure": {"resource_name": "x"}, "enabled": true});
        for (text, expected) in [
            ("", true),
            ("name = 'a''b'", true),
            ("name='a''b' AND azure.resource_name = 'x' and enabled = true", true),
            ("name = 'a''b' and azure.resource_name = 'y'", false),
            ("azure.nothing = 'x'", false),
            ("name > 'a' and azure.resource_name > 'w'", true),
            ("azure.resource_name > 'x'", false),
        ] {
            assert_eq!(matches(&parse(text).ok().unwrap(), &item), expected, "{text}");
        }
        for text in
            ["name", "name = a", "name like 'a%'", "name = 'a' or name = 'b'", "name = 'a' and ", "name = 'a"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
