//! Durations and sizes that say their unit.

use std::fmt;
use std::str::FromStr;
use std::time;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A duration written with its unit: `"30s"`, `"1h 30m"`, `"250ms"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub time::Duration);

/// A size written with its unit: `"64MiB"`, `"512KiB"`, `"1.5 GiB"`, `"100MB"`, `"80B"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// A duration or size that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct UnitError {
    text: String,
    expected: &'static str,
}

const DURATION: &str = "a duration with its unit, such as \"30s\" or \"1h 30m\"";
const SIZE: &str = "a size with its unit, such as \"64MiB\" or \"100MB\"";

/// Largest first, so that sizes are written in the largest unit that divides them.
const BINARY: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
const DECIMAL: [(&str, u64); 4] =
    [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];

// === impl Duration ===

impl Duration {
    /// So many seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(time::Duration::from_secs(seconds))
    }

    /// So many milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(time::Duration::from_millis(milliseconds))
    }
}

impl From<Duration> for time::Duration {
    fn from(duration: Duration) -> Self {
        duration.0
    }
}

impl From<time::Duration> for Duration {
    fn from(duration: time::Duration) -> Self {
        Self(duration)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(formatter)
    }
}

impl FromStr for Duration {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        // The parser takes a lone zero, which says no unit.
        let bare = text.trim().bytes().all(|byte| byte.is_ascii_digit());
        match humantime::parse_duration(text) {
            Ok(duration) if !bare => Ok(Self(duration)),
            _ => Err(UnitError { text: text.to_owned(), expected: DURATION }),
        }
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Parsed { expected: DURATION, parse: str::parse })
    }
}

// === impl ByteSize ===

impl ByteSize {
    /// So many times 1,024 bytes.
    pub const fn kibibytes(count: u64) -> Self {
        Self(count << 10)
    }

    /// So many times 1,024 × 1,024 bytes.
    pub const fn mebibytes(count: u64) -> Self {
        Self(count << 20)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let divides = |(_, unit): &&(&str, u64)| self.0 >= *unit && self.0.is_multiple_of(*unit);
        match BINARY.iter().find(divides).or_else(|| DECIMAL.iter().find(divides)) {
            Some((name, unit)) => write!(formatter, "{}{name}", self.0 / unit),
            None => write!(formatter, "{}B", self.0),
        }
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_size(text).map(Self).ok_or_else(|| UnitError { text: text.to_owned(), expected: SIZE })
    }
}

/// Exact, in integers: `0.1GiB` is no whole number of bytes, and is refused like any other nonsense.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = (&text[..digits], text[digits..].trim_start());
    let unit = BINARY
        .iter()
        .chain(&DECIMAL)
        .chain(&[("B", 1)])
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .map(|(_, size)| u128::from(*size))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let scaled = u128::from(whole.parse::<u64>().ok()?)
        .checked_mul(scale)?
        .checked_add(u128::from(fraction.parse::<u64>().ok()?))?;
    let bytes = scaled.checked_mul(unit)?;
    if !bytes.is_multiple_of(scale) {
        return None;
    }
    u64::try_from(bytes / scale).ok()
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Parsed { expected: SIZE, parse: str::parse })
    }
}

/// Reads text and nothing else, so that a bare number is refused with the right words.
struct Parsed<T> {
    expected: &'static str,
    parse: fn(&str) -> Result<T, UnitError>,
}

impl<T> Visitor<'_> for Parsed<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("0B", 0),
            ("80B", 80),
            ("64MiB", 64 << 20),
            ("64 mib", 64 << 20),
            ("1.5 GiB", 3 << 29),
            ("100MB", 100_000_000),
            ("2kB", 2000),
            ("16383TiB", 16383 << 40),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "64", "MiB", "64 MiBs", "-1MiB", "1.2.3MiB", "0.1B", "99999999TiB", "1.MiB", ".5MiB"]
        {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_read_with_their_units() {
        assert_eq!("1h 30m".parse(), Ok(Duration::from_secs(5400)));
        assert_eq!("250ms".parse(), Ok(Duration::from_millis(250)));
        for text in ["", "30", "0", "30 bananas", "-1s"] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }

    #[test]
    fn bare_numbers_are_refused_with_an_example() {
        let error = serde_json::from_str::<Duration>("30").unwrap_err().to_string();
        assert!(
            error.starts_with("invalid type: integer `30`, expected a duration with its unit"),
            "{error}"
        );
        let error = serde_json::from_str::<ByteSize>("\"64\"").unwrap_err().to_string();
        assert!(error.starts_with("`64` is not a size with its unit"), "{error}");
    }

    proptest! {
        #[test]
        fn sizes_come_back_as_written(bytes: u64) {
            prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }

        #[test]
        fn durations_come_back_as_written(milliseconds in 0_u64..1_000_000_000_000) {
            let duration = Duration::from_millis(milliseconds);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
