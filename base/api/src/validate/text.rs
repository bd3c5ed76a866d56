//! Words in fields.

/// A resource group's name: up to 90 letters, digits and `_-.()`, no dot at the end.
pub(super) fn is_resource_group(text: &str) -> bool {
    (1..=90).contains(&text.chars().count())
        && !text.ends_with('.')
        && text.chars().all(|character| character.is_alphanumeric() || "_-.()".contains(character))
}

/// A disk encryption set's name: up to 80 letters, digits, `_` and `-`.
pub(super) fn is_disk_encryption_set(text: &str) -> bool {
    (1..=80).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// A label's value: up to 63 characters, letters or digits at both ends.
pub(super) fn is_label_value(text: &str) -> bool {
    let end = |character: Option<char>| character.is_some_and(|c| c.is_ascii_alphanumeric());
    text.is_empty()
        || (text.len() <= 63
            && end(text.chars().next())
            && end(text.chars().last())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)))
}

/// A label's key: a name, perhaps with a DNS domain and a slash before it.
pub(super) fn is_qualified_name(text: &str) -> bool {
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, text),
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    !name.is_empty()
        && is_label_value(name)
        && domain.is_none_or(|domain| domain.len() <= 253 && domain.split('.').all(label))
}

/// `registry.test:5000/team`: lower case, no scheme; `*.` in front only where a pattern is allowed.
pub(super) fn is_registry(text: &str, pattern: bool) -> bool {
    let text = if pattern { text.strip_prefix("*.").unwrap_or(text) } else { text };
    let (host, path) = text.split_once('/').unwrap_or((text, "x"));
    let (host, port) = match host.split_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().is_ok()),
        None => (host, true),
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    let path_is_plain = path
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-/".contains(&byte));
    port && host.split('.').all(label) && !path.is_empty() && path_is_plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_form_their_field_asks_for() {
        type Row = (fn(&str) -> bool, &'static [&'static str], &'static [&'static str]);
        let table: [Row; 5] = [
            (is_disk_encryption_set, &["a", "Set_1-b"], &["", "a.b", "ä", "a b"]),
            (is_resource_group, &["rg", "Gruppe_ä.(1)"], &["", "rg.", "a/b"]),
            (is_label_value, &["", "v1", "a_b.c"], &["-a", "a-", "a b"]),
            (is_qualified_name, &["a", "example.com/role"], &["", "/a", "Example.com/a", "a/b/c"]),
            (
                |text| is_registry(text, true),
                &["*.quay.test", "quay.test:5000/a/b"],
                &["", "https://q", "Q", "a b"],
            ),
        ];
        for (check, good, bad) in table {
            assert!(good.iter().all(|text| check(text)), "{good:?}");
            for text in bad {
                assert!(!check(text), "{text:?} was taken");
            }
        }
        assert!(!is_registry("*.quay.test", false));
    }
}
