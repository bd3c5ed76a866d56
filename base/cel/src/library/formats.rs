//! Named formats: `format.dns1123Label().validate(text)` says what is wrong with a text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Outcome, text, time};
use crate::value::Value;

/// The type of a format.
pub(crate) const TYPE: &str = "kubernetes.NamedFormat";

/// The functions that answer with one.
pub(crate) const NAMES: [&str; 13] = [
    "format.dns1123Label",
    "format.dns1123Subdomain",
    "format.dns1035Label",
    "format.qualifiedName",
    "format.dns1123LabelPrefix",
    "format.dns1123SubdomainPrefix",
    "format.dns1035LabelPrefix",
    "format.labelValue",
    "format.uri",
    "format.uuid",
    "format.byte",
    "format.date",
    "format.datetime",
];

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const OLD_LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Outcome<'a>> {
    match (function, arguments) {
        ("format.named", [name]) => {
            let wanted = format!("format.{}", text(name)?);
            let found = NAMES.iter().find(|one| **one == wanted);
            Some(Ok(found.map_or(Value::Optional(None), |name| Value::some(Value::Format(name)))))
        }
        ("validate", [Value::Format(name), subject]) => {
            let problems = problems(name, text(subject)?);
            Some(Ok(match problems.is_empty() {
                true => Value::Optional(None),
                false => Value::some(super::texts(problems)),
            }))
        }
        (name, []) => {
            let name = NAMES.iter().find(|one| **one == name)?;
            Some(Ok(Value::Format(name)))
        }
        _ => None,
    }
}

fn problems(name: &str, text: &str) -> Vec<String> {
    // A prefix may end where a name could go on.
    let completed = text.strip_suffix('-').map(|start| format!("{start}a"));
    let prefix = completed.as_deref().unwrap_or(text);
    let one = |holds: bool, message: &str| if holds { Vec::new() } else { vec![message.to_owned()] };
    match name {
        "format.dns1123Label" => label(text),
        "format.dns1123LabelPrefix" => label(prefix),
        "format.dns1123Subdomain" => subdomain(text),
        "format.dns1123SubdomainPrefix" => subdomain(prefix),
        "format.dns1035Label" => old_label(text),
        "format.dns1035LabelPrefix" => old_label(prefix),
        "format.qualifiedName" => qualified(text),
        "format.labelValue" => label_value(text),
        "format.uri" => one(
            super::url::call("isURL", &[Value::text(text)])
                .is_some_and(|is| matches!(is, Ok(Value::Bool(true)))),
            "invalid URI for request",
        ),
        "format.uuid" => one(is_uuid(text), "does not match the UUID format"),
        "format.byte" => one(STANDARD.decode(text).is_ok(), "invalid base64"),
        "format.date" => one(text.len() == 10 && time::date(text).is_some(), "invalid date"),
        _ => one(time::timestamp(text).is_some(), "invalid datetime"),
    }
}

fn too_long(text: &str, most: usize) -> Option<String> {
    (text.len() > most).then(|| format!("must be no more than {most} characters"))
}

fn is_label(text: &str) -> bool {
    let edge = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit();
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|one| edge(one) || one == '-')
}

fn label(text: &str) -> Vec<String> {
    let mut problems: Vec<_> = too_long(text, 63).into_iter().collect();
    if !is_label(text) {
        problems.push(LABEL.to_owned());
    }
    problems
}

fn subdomain(text: &str) -> Vec<String> {
    let mut problems: Vec<_> = too_long(text, 253).into_iter().collect();
    if !text.split('.').all(is_label) {
        problems.push(SUBDOMAIN.to_owned());
    }
    problems
}

fn old_label(text: &str) -> Vec<String> {
    let mut problems: Vec<_> = too_long(text, 63).into_iter().collect();
    if !is_label(text) || !text.starts_with(|one: char| one.is_ascii_lowercase()) {
        problems.push(OLD_LABEL.to_owned());
    }
    problems
}

fn is_name_part(text: &str) -> bool {
    let edge = |one: char| one.is_ascii_alphanumeric();
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|one| edge(one) || "-_.".contains(one))
}

fn qualified(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some(("", name)) => {
            problems.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            problems.extend(subdomain(prefix).into_iter().map(|problem| format!("prefix part {problem}")));
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if let Some(problem) = too_long(name, 63) {
        problems.push(format!("name part {problem}"));
    }
    if !is_name_part(name) {
        problems.push(NAME_PART.to_owned());
    }
    problems
}

fn label_value(text: &str) -> Vec<String> {
    let mut problems: Vec<_> = too_long(text, 63).into_iter().collect();
    if !text.is_empty() && !is_name_part(text) {
        problems.push(LABEL_VALUE.to_owned());
    }
    problems
}

fn is_uuid(text: &str) -> bool {
    let plain = text.replace('-', "");
    let placed = text.char_indices().all(|(place, one)| one != '-' || matches!(place, 8 | 13 | 18 | 23));
    plain.len() == 32 && plain.chars().all(|one| one.is_ascii_hexdigit()) && placed
}
