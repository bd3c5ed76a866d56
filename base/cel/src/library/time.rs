//! Moments and spans of time.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, civil};

use super::Outcome;
use crate::error::EvaluationError;
use crate::value::Value;

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Outcome<'a>> {
    match arguments {
        [Value::Duration(span)] => Some(Ok(Value::Int(match function {
            "getHours" => span.as_secs() / 3600,
            "getMinutes" => span.as_secs() / 60,
            "getSeconds" => span.as_secs(),
            "getMilliseconds" => i64::try_from(span.as_millis()).unwrap_or(i64::MAX),
            _ => return None,
        }))),
        [Value::Timestamp(moment)] => part(function, *moment, TimeZone::UTC).map(Ok),
        [Value::Timestamp(moment), Value::String(name)] => Some(match zone(name.as_str()) {
            Some(zone) => Ok(part(function, *moment, zone)?),
            None => Err(EvaluationError::failed(format!("unknown time zone {}", name.as_str()))),
        }),
        _ => None,
    }
}

fn part<'a>(function: &str, moment: Timestamp, zone: TimeZone) -> Option<Value<'a>> {
    let there = moment.to_zoned(zone);
    Some(Value::Int(match function {
        "getFullYear" => i64::from(there.year()),
        "getMonth" => i64::from(there.month()) - 1,
        "getDate" => i64::from(there.day()),
        "getDayOfMonth" => i64::from(there.day()) - 1,
        "getDayOfWeek" => i64::from(there.weekday().to_sunday_zero_offset()),
        "getDayOfYear" => i64::from(there.day_of_year()) - 1,
        "getHours" => i64::from(there.hour()),
        "getMinutes" => i64::from(there.minute()),
        "getSeconds" => i64::from(there.second()),
        "getMilliseconds" => i64::from(there.millisecond()),
        _ => return None,
    }))
}

/// `Europe/Berlin`, `+02:00` or `-11:30`.
fn zone(name: &str) -> Option<TimeZone> {
    let (sign, rest) = match name.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, name.strip_prefix('+').unwrap_or(name)),
    };
    if let Some((hours, minutes)) = rest.split_once(':')
        && let (Ok(hours), Ok(minutes)) = (hours.parse::<i32>(), minutes.parse::<i32>())
    {
        let seconds = sign * (hours * 3600 + minutes * 60);
        return jiff::tz::Offset::from_seconds(seconds).ok().map(TimeZone::fixed);
    }
    if name == "UTC" { Some(TimeZone::UTC) } else { TimeZone::get(name).ok() }
}

/// A moment in the form of RFC 3339.
pub(crate) fn timestamp(text: &str) -> Option<Timestamp> {
    // The parser takes a blank and short forms as well.
    let bytes = text.as_bytes();
    (bytes.len() >= 20 && bytes[10] == b'T').then(|| text.parse().ok()).flatten()
}

pub(crate) fn date(text: &str) -> Option<Timestamp> {
    let date: civil::Date = text.parse().ok()?;
    date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// A span as Go writes it: `1h30m`, `-1.5s`, `0`.
pub(crate) fn duration(text: &str) -> Option<SignedDuration> {
    with_units(
        text,
        &[
            ("ns", 1),
            ("us", 1_000),
            ("µs", 1_000),
            ("μs", 1_000),
            ("ms", 1_000_000),
            ("s", SECOND),
            ("m", 60 * SECOND),
            ("h", 3600 * SECOND),
        ],
    )
}

/// A span of a schema's format `duration`, which knows days and weeks as well.
pub(crate) fn open_api_duration(text: &str) -> Option<SignedDuration> {
    duration(text).or_else(|| {
        let compact: String = text.chars().filter(|character| !character.is_whitespace()).collect();
        with_units(
            &compact,
            &[
                ("ns", 1),
                ("us", 1_000),
                ("ms", 1_000_000),
                ("s", SECOND),
                ("m", 60 * SECOND),
                ("h", 3600 * SECOND),
                ("d", 86_400 * SECOND),
                ("w", 7 * 86_400 * SECOND),
            ],
        )
    })
}

const SECOND: i128 = 1_000_000_000;

fn with_units(text: &str, units: &[(&str, i128)]) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|one: char| !one.is_ascii_digit() && one != '.')?;
        let (number, after) = rest.split_at(end);
        let length = after.find(|one: char| one.is_ascii_digit() || one == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(length);
        let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(*scale)?)?;
        let digits = &fraction[..fraction.len().min(18)];
        if !digits.is_empty() {
            let value: i128 = digits.parse().ok()?;
            let power = 10_i128.checked_pow(u32::try_from(digits.len()).ok()?)?;
            total = total.checked_add(value * scale / power)?;
        }
        rest = next;
    }
    let nanos = i64::try_from(if negative { -total } else { total }).ok()?;
    Some(SignedDuration::from_nanos(nanos))
}

/// A span as `string()` shows it: in seconds.
pub(crate) fn shown(span: SignedDuration) -> String {
    let nanos = span.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let (whole, fraction) = (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
    let fraction = format!("{fraction:09}");
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{whole}s"),
        fraction => format!("{sign}{whole}.{fraction}s"),
    }
}
