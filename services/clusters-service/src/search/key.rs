//! As what the value of a field is compared: what reads like a number or a moment is one, where the field holds such.

use std::cmp::Ordering;

use jiff::Timestamp;

use super::Field;

/// What is not as its field promises comes last, as the text that it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Moment(Timestamp),
    Number(u64),
    /// The parts of a version's number, and what stands behind them.
    Version(Vec<u64>, &'a str),
    Text(&'a str),
}

/// Which of two values of a field comes first. Only the same text is equal, but for moments: they are written in several ways.
pub(super) fn compare(field: &Field, left: &str, right: &str) -> Ordering {
    let (one, other) = (key(field, left), key(field, right));
    match (&one, &other) {
        (Key::Moment(_), Key::Moment(_)) => one.cmp(&other),
        _ => one.cmp(&other).then_with(|| left.cmp(right)),
    }
}

fn key<'a>(field: &Field, text: &'a str) -> Key<'a> {
    let last = field.0.last().map(String::as_str).unwrap_or_default();
    if last.ends_with("_timestamp") || last == "next_run" {
        return text.parse().map_or(Key::Text(text), Key::Moment);
    }
    let is_version = field.is(&["version"]) || field.is(&["version", "id"]) || field.is(&["raw_id"]);
    if let Some(version) = is_version.then(|| version(text)).flatten() {
        return version;
    }
    // What counts what it names has numbers for ids; all others are longer than numbers.
    match field.is(&["id"]) {
        true => version(text).or_else(|| text.parse().ok().map(Key::Number)).unwrap_or(Key::Text(text)),
        false => Key::Text(text),
    }
}

/// `openshift-v4.20.3-fast`, or `4.20.3`.
fn version(text: &str) -> Option<Key<'_>> {
    let number = text.strip_prefix("openshift-v").unwrap_or(text);
    let (number, channel) = number.split_once('-').unwrap_or((number, ""));
    let parts: Option<Vec<u64>> = number.split('.').map(|part| part.parse().ok()).collect();
    parts.filter(|parts| parts.len() > 1).map(|parts| Key::Version(parts, channel))
}
