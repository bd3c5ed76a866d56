use std::collections::BTreeMap;

use pilothouse_arm::TagProblem;

use crate::availability::{AVAILABILITIES, AVAILABILITY_TAG, availability};
use crate::invalid::Problems;
use crate::payload::{PAYLOAD_TAG, PAYLOADS, payload};
use crate::release::Release;
use crate::version::Rules;

/// What begins with this asks for something that is not for everybody.
const EXPERIMENTAL: &str = "aro-hcp.experimental.cluster.";
const NAMES: [&str; 6] = [
    "control-plane-exact-version",
    "control-plane-operator-image-override",
    "max-creation-duration",
    "max-deletion-duration",
    "single-replica",
    "size-override",
];

pub(super) fn check(tags: &BTreeMap<String, String>, problems: &mut Problems) {
    for problem in TagProblem::of(tags) {
        let target = match problem.key() {
            Some(key) => format!("tags[{key}]"),
            None => "tags".to_owned(),
        };
        match &problem {
            TagProblem::TooMany { count } => problems.too_many(target, *count, TagProblem::MOST),
            TagProblem::KeyTooLong { .. } => problems.too_long(target, TagProblem::LONGEST_KEY),
            TagProblem::ValueTooLong { .. } => problems.too_long(target, TagProblem::LONGEST_VALUE),
            TagProblem::SameKey { key, .. } => problems.duplicate(target, key),
            TagProblem::EmptyKey => problems.invalid(target, "", &problem),
            TagProblem::ForbiddenCharacter { key, .. } => problems.invalid(target, key, &problem),
        }
    }
}

/// Payload and availability are chosen once: what one payload keeps, the other cannot read, and no members are added to a
/// store that was made to be one.
pub(super) fn check_choices(
    tags: &BTreeMap<String, String>,
    existing: Option<&BTreeMap<String, String>>,
    problems: &mut Problems,
) {
    check_choice(PAYLOAD_TAG, &PAYLOADS, payload, (tags, existing), problems);
    check_choice(AVAILABILITY_TAG, &AVAILABILITIES, availability, (tags, existing), problems);
}

fn check_choice(
    tag: &str,
    choices: &[&str],
    of: fn(&BTreeMap<String, String>) -> Option<&str>,
    (tags, existing): (&BTreeMap<String, String>, Option<&BTreeMap<String, String>>),
    problems: &mut Problems,
) {
    let (target, asked) = (format!("tags[{tag}]"), of(tags));
    if let Some(running) = existing.map(of)
        && running != asked
    {
        let running = running.map_or_else(|| "not there".to_owned(), |running| format!("'{running}'"));
        let why = format!("it is {running} since the cluster was made, and stays; make another cluster");
        problems.forbidden(target, why);
    } else if let Some(asked) = asked.filter(|asked| !choices.contains(asked)) {
        problems.unsupported(target, asked, choices);
    }
}

/// Experimental tags mean something only to those who were let in; to others they are tags like any.
pub(super) fn check_experimental(tags: &BTreeMap<String, String>, rules: Rules, problems: &mut Problems) {
    if !rules.experimental {
        return;
    }
    for (key, value) in tags {
        let lower = key.to_lowercase();
        let Some(name) = lower.strip_prefix(EXPERIMENTAL) else { continue };
        let target = format!("tags[{key}]");
        match name {
            "single-replica" if value != "SingleReplica" => {
                problems.unsupported(target, value, &["SingleReplica"]);
            }
            "size-override" if value != "Minimal" => problems.unsupported(target, value, &["Minimal"]),
            "control-plane-operator-image-override" if value.trim().is_empty() => problems.required(target),
            "control-plane-exact-version" if value.parse::<Release>().is_err() => {
                problems.invalid(target, value, "must be a full version, such as 4.20.8");
            }
            "max-creation-duration" | "max-deletion-duration" => match seconds(value) {
                None => problems.invalid(target, value, "must be a duration, such as 1h30m"),
                Some(seconds) if seconds < 60.0 => problems.invalid(target, value, "must be at least 1m"),
                Some(_) => {}
            },
            known if NAMES.contains(&known) => {}
            unknown => problems.unsupported(target, unknown, &NAMES),
        }
    }
}

/// A duration as Go writes it: numbers, each with its unit.
fn seconds(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("μs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0.0);
    }
    let mut sum = None;
    while !rest.is_empty() {
        let digits = rest.find(|found: char| !found.is_ascii_digit() && found != '.')?;
        let (number, behind) = rest.split_at(digits);
        let letters =
            behind.find(|found: char| found.is_ascii_digit() || found == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        sum = Some(sum.unwrap_or(0.0) + number.parse::<f64>().ok()? * factor);
        rest = behind;
    }
    sum.map(|sum| sum * sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, expected) in
            [("1h30m", 5400.0), ("60s", 60.0), ("1.5m", 90.0), ("-1m", -60.0), ("0", 0.0), ("100ms", 0.1)]
        {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in ["", "1", "m", "1d", "1h 30m", "1.m.", "h1", "--1m"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
