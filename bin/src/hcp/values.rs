//! What may stand behind an option.

use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use serde_json::Value;

/// A name that may be a host name's first part, as Kubernetes wants it.
pub(super) fn label(text: &str) -> Result<String, String> {
    let fits = !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    if fits {
        Ok(text.to_owned())
    } else {
        Err("a name has up to 63 small letters, digits and dashes, and begins and ends with none of the dashes".to_owned())
    }
}

/// An amount such as `8Gi` or `500M`.
pub(super) fn quantity(text: &str) -> Result<String, String> {
    const UNITS: [&str; 15] =
        ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "k", "M", "G", "T", "P", "E", "m", "e"];
    let number = text.trim_start_matches('+');
    let digits = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    let (number, unit) = number.split_at(digits);
    let counts = number.parse::<f64>().is_ok_and(|number| number > 0.0);
    if counts && UNITS.contains(&unit) && unit != "e" {
        Ok(text.to_owned())
    } else {
        Err("an amount is a number with a unit, such as 8Gi, 10Gi or 500M".to_owned())
    }
}

/// A span of time such as `10m` or `1h30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a span of time is written like 90s, 10m or 1h30m".to_owned();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        total += match &rest[..letters] {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.saturating_mul(60)),
            "h" => Duration::from_secs(number.saturating_mul(3600)),
            _ => return Err(wrong()),
        };
        rest = &rest[letters..];
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

/// The same as Kubernetes writes it: `0s`, `1m30s`, `1h0m0s`.
pub(super) fn write_duration(span: Duration) -> String {
    let (seconds, milliseconds) = (span.as_secs(), span.subsec_millis());
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let last = match milliseconds {
        0 => format!("{}s", seconds % 60),
        _ => format!("{}.{milliseconds:03}s", seconds % 60),
    };
    match (hours, minutes) {
        (0, 0) => last,
        (0, _) => format!("{minutes}m{last}"),
        _ => format!("{hours}h{minutes}m{last}"),
    }
}

/// `key=value`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("this is written key=value".to_owned()),
    }
}

/// A toleration: `key=k,operator=Equal,value=v,effect=NoSchedule,tolerationSeconds=n`.
pub(super) fn toleration(text: &str) -> Result<Value, String> {
    let mut toleration = serde_json::Map::new();
    for part in text.split(',') {
        let (name, value) = pair(part)?;
        let value = match name.as_str() {
            "key" | "operator" | "value" | "effect" => Value::from(value),
            "tolerationSeconds" => {
                Value::from(value.parse::<i64>().map_err(|_| "tolerationSeconds is a number".to_owned())?)
            }
            _ => return Err(format!("a toleration has no `{name}`")),
        };
        toleration.insert(name, value);
    }
    Ok(Value::Object(toleration))
}

/// What the cluster's infrastructure is named after: the name with what may stand in one, and a random end.
pub(super) fn infra_id(name: &str) -> anyhow::Result<String> {
    const LONGEST: usize = 27;
    const RANDOM: usize = 5;
    let mut stem = String::new();
    for letter in name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }) {
        if letter != '-' || !stem.ends_with('-') {
            stem.push(letter);
        }
    }
    stem.truncate(LONGEST - RANDOM - 1);
    Ok(format!("{}-{}", stem.trim_end_matches('-'), random_letters(RANDOM)?))
}

/// Letters that make no words.
fn random_letters(count: usize) -> anyhow::Result<String> {
    const LETTERS: &[u8; 32] = b"bcdfghjklmnpqrstvwxz2456789bcdfg";
    let mut bytes = vec![0; count];
    random(&mut bytes)?;
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}

/// Fills with what nobody can guess.
pub(super) fn random(bytes: &mut [u8]) -> anyhow::Result<()> {
    aws_lc_rs::rand::fill(bytes).map_err(|_| anyhow!("this machine has no random numbers"))
}

/// Reads what a pull secret's file must be.
pub(super) fn pull_secret(text: &str) -> anyhow::Result<()> {
    let value: Value = serde_json::from_str(text).context("it is not JSON")?;
    ensure!(value.is_object(), "it is JSON, but no object with credentials in `auths`");
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("10Gi", true)]
    #[case("1.5Gi", true)]
    #[case("512M", true)]
    #[case("8", true)]
    #[case("10GB", false)]
    #[case("Gi", false)]
    #[case("-1Gi", false)]
    #[case("0", false)]
    #[case("ten", false)]
    fn amounts_are_numbers_with_a_unit_of_kubernetes(#[case] text: &str, #[case] fits: bool) {
        assert_eq!(quantity(text).is_ok(), fits);
    }

    #[rstest]
    #[case("0s", 0, "0s")]
    #[case("90s", 90, "1m30s")]
    #[case("10m", 600, "10m0s")]
    #[case("1h30m", 5400, "1h30m0s")]
    fn spans_of_time_are_written_as_kubernetes_does(
        #[case] text: &str,
        #[case] seconds: u64,
        #[case] written: &str,
    ) {
        let span = duration(text).unwrap();
        assert_eq!((span.as_secs(), write_duration(span).as_str()), (seconds, written));
    }

    #[test]
    fn spans_of_time_without_a_unit_are_refused() {
        for text in ["", "10", "m", "10x", "1h30"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn infrastructure_is_named_after_its_cluster_and_stays_short() {
        let id = infra_id("a_very--long.name-of-a-cluster").unwrap();
        assert!(id.starts_with("a-very-long-name-of-") && id.len() <= 27, "{id}");
        assert_ne!(infra_id("guest").unwrap(), infra_id("guest").unwrap());
    }
}
