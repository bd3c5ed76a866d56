//! What may be a name, a label or a key.

use crate::catalogue::Resource;

/// Characters of generated names: no vowels, so no words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How much of a prefix is kept before the generated part.
const LONGEST_PREFIX: usize = 58;

/// A name from `generateName`: the prefix and five characters, chosen by the five numbers.
pub(crate) fn generated(prefix: &str, numbers: [u8; 5]) -> String {
    let end = (0..=prefix.len().min(LONGEST_PREFIX))
        .rev()
        .find(|&at| prefix.is_char_boundary(at))
        .unwrap_or_default();
    let mut name = prefix[..end].to_owned();
    name.extend(numbers.iter().map(|number| char::from(ALPHABET[usize::from(*number) % ALPHABET.len()])));
    name
}

/// Why an object of this kind cannot be called so.
pub(crate) fn problem(resource: &Resource, name: &str) -> Option<&'static str> {
    match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "namespaces") => label_problem(name),
        ("", "services") => service_problem(name),
        ("rbac.authorization.k8s.io", _) => path_segment_problem(name),
        _ => subdomain_problem(name),
    }
}

/// RFC 1123 label.
pub(crate) fn label_problem(name: &str) -> Option<&'static str> {
    let fits = (1..=63).contains(&name.len()) && is_label(name);
    if !fits && (1..=63).contains(&name.len()) && subdomain_problem(name).is_none() {
        return Some("must not contain dots");
    }
    (!fits).then_some(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
         with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
    )
}

/// RFC 1035 label: as above, but beginning with a letter.
pub(crate) fn service_problem(name: &str) -> Option<&'static str> {
    let letter = name.starts_with(|character: char| character.is_ascii_lowercase());
    let fits = (1..=63).contains(&name.len()) && is_label(name) && letter;
    (!fits).then_some(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, \
         and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
         '[a-z]([-a-z0-9]*[a-z0-9])?')",
    )
}

/// RFC 1123 subdomain: labels with dots between.
pub(crate) fn subdomain_problem(name: &str) -> Option<&'static str> {
    let fits = (1..=253).contains(&name.len()) && name.split('.').all(is_label);
    (!fits).then_some(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
         and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    )
}

/// Roles may be called almost anything, as long as it fits in a path.
fn path_segment_problem(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        name if name.contains('/') => Some("may not contain '/'"),
        name if name.contains('%') => Some("may not contain '%'"),
        _ => None,
    }
}

/// An optional DNS prefix, a slash, a name.
pub(crate) fn label_key_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if prefix.is_some_and(|prefix| subdomain_problem(prefix).is_some()) {
        return Some("prefix part must be a lowercase RFC 1123 subdomain (e.g. 'example.com')");
    }
    if name.contains('/') {
        return Some(
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
             'example.com/MyName')",
        );
    }
    let fits = (1..=63).contains(&name.len()) && is_qualified(name);
    (!fits).then_some(
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
         character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    )
}

pub(crate) fn label_value_problem(value: &str) -> Option<&'static str> {
    if value.len() > 63 {
        return Some("must be no more than 63 characters");
    }
    (!value.is_empty() && !is_qualified(value)).then_some(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and \
         end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
         '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    )
}

/// Keys of config maps and secrets.
pub(crate) fn data_key_problem(key: &str) -> Option<&'static str> {
    let fits = (1..=253).contains(&key.len())
        && key.chars().all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
        && key != "."
        && !key.starts_with("..");
    (!fits).then_some(
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  \
         or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
    )
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn is_qualified(name: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    edge(name.bytes().next())
        && edge(name.bytes().next_back())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}
