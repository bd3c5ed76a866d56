//! A look at a body before it is read into anything: is it JSON at all, and does it say everything once?
//!
//! Whoever reads an object takes the first or the last of two members of one name, and never both. What the caller meant
//! is not known, so it is refused, wherever in the body it is.

use std::fmt;

use pilothouse_api::{FieldError, Invalid};
use pilothouse_http::members;
use serde_json::Value;

/// Checks a body.
pub(crate) fn check(body: &[u8]) -> Result<(), Invalid> {
    let unreadable = |problem: &dyn fmt::Display| {
        let message = format!("The request content could not be deserialised: {problem}.");
        Invalid(vec![FieldError { target: String::new(), message }])
    };
    let text = std::str::from_utf8(body)
        .map_err(|error| unreadable(&format_args!("it is not UTF-8 from byte {} on", error.valid_up_to())))?;
    if text.starts_with('\u{feff}') {
        return Err(unreadable(&"it begins with a byte order mark"));
    }
    if text.trim_ascii().is_empty() {
        return Err(unreadable(&"it is empty"));
    }
    let mut repeated: Vec<FieldError> = Vec::new();
    members(body, |member| {
        if member.repeated && !repeated.iter().any(|known| known.target == member.path) {
            let message = "Duplicate value: the member occurs more than once".to_owned();
            repeated.push(FieldError { target: member.path.to_owned(), message });
        }
    })
    .map_err(|error| unreadable(&error))?;
    if repeated.is_empty() { Ok(()) } else { Err(Invalid(repeated)) }
}

/// What is wrong with the name that a body repeats, if it is the path's in another case.
pub(crate) fn misspelled(body: &[u8], name: &str) -> Option<FieldError> {
    let said: Value = serde_json::from_slice(body).ok()?;
    let said = said.get("name")?.as_str()?;
    (said != name && said.eq_ignore_ascii_case(name)).then(|| FieldError {
        target: "name".to_owned(),
        message: format!("Invalid value: {said:?}: must be '{name}', as in the path"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_json_is_refused_with_the_place() {
        let deep = "[".repeat(1000);
        for (body, said) in [
            (&b""[..], "it is empty"),
            (b" \n", "it is empty"),
            (b"{\"a\": \xff}", "not UTF-8 from byte 6 on"),
            ("\u{feff}{}".as_bytes(), "byte order mark"),
            (b"{\"a\": 1,}", "trailing comma at line 1 column 9"),
            (b"{\"a\": 01}", "invalid number at line 1 column 8"),
            (b"{\"a\": NaN}", "expected value at line 1 column 7"),
            (b"{'a': 1}", "key must be a string at line 1 column 2"),
            (b"{} {}", "trailing characters at line 1 column 4"),
            (b"{\"a\": \"\\ud800\"}", "at line 1 column"),
            (deep.as_bytes(), "recursion limit exceeded"),
            (b"{", "EOF while parsing an object"),
        ] {
            let Invalid(problems) = check(body).unwrap_err();
            assert_eq!((problems.len(), problems[0].target.as_str()), (1, ""));
            assert!(problems[0].message.contains(said), "{}", problems[0].message);
        }
    }

    #[test]
    fn a_name_in_a_body_is_spelled_as_in_the_path() {
        assert_eq!(misspelled(br#"{"name": "First"}"#, "FIRST").unwrap().target, "name");
        for body in ["{}", r#"{"name": "FIRST"}"#, r#"{"name": 1}"#, "[]", "null"] {
            assert_eq!(misspelled(body.as_bytes(), "FIRST"), None, "{body}");
        }
    }

    #[test]
    fn members_that_occur_twice_are_all_named() {
        let body =
            br#"{"a": {"b": 1, "b": 2, "b": 3}, "c": [{"d": 1}, {"e": 1, "e": null}], "a": 5, "A": 1}"#;
        let Invalid(problems) = check(body).unwrap_err();
        let targets: Vec<_> = problems.iter().map(|problem| problem.target.as_str()).collect();
        assert_eq!(targets, ["a.b", "c[1].e", "a"]);
        assert!(check(br#"{"a": {"b": 1}, "b": [1, 1, "x", true, null, -1.5e3]}"#).is_ok());
    }
}
