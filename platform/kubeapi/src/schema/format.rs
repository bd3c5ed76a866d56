//! Formats of strings. One that is not known is not checked.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

pub(super) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => is_duration(text),
        "byte" => STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "uri" => url::Url::parse(text).is_ok(),
        "email" => text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && is_host_name(host)),
        "hostname" => is_host_name(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => uuid::Uuid::try_parse(text).is_ok(),
        _ => true,
    }
}

/// Formats that somebody knows, even if nothing is checked here.
const KNOWN: [&str; 34] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "date-time",
    "int32",
    "int64",
    "float",
    "double",
    "quantity",
    "int-or-string",
    "name",
    "k8s-short-name",
    "k8s-long-name",
];

/// The formats of a schema that nobody knows, each once.
pub(super) fn unknown(schema: &Value, found: &mut Vec<String>) {
    if let Some(format) = schema["format"].as_str()
        && !format.is_empty()
        && !KNOWN.contains(&format)
        && !found.iter().any(|one| one == format)
    {
        found.push(format.to_owned());
    }
    for inner in schema["properties"].as_object().into_iter().flat_map(|fields| fields.values()) {
        unknown(inner, found);
    }
    for word in ["items", "additionalProperties"] {
        if schema[word].is_object() {
            unknown(&schema[word], found);
        }
    }
}

/// `1h30m`, `300ms`, `-1.5h`, `0`: as Go writes durations.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let whole = rest.len();
    while !rest.is_empty() {
        let digits = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(rest.len());
        if rest[..digits].parse::<f64>().is_err() {
            return false;
        }
        rest = &rest[digits..];
        let Some(unit) =
            ["ns", "us", "µs", "ms", "s", "m", "h", "d", "w"].iter().find(|unit| rest.starts_with(**unit))
        else {
            return false;
        };
        rest = &rest[unit.len()..];
    }
    whole > 0
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(length) = length.parse::<u8>() else { return false };
    match address.parse() {
        Ok(std::net::IpAddr::V4(_)) => length <= 32,
        Ok(std::net::IpAddr::V6(_)) => length <= 128,
        Err(_) => false,
    }
}

fn is_host_name(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|character| character.is_ascii_alphanumeric() || character == '-')
    };
    text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}
