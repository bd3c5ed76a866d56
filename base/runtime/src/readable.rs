//! Durations on debug pages, written for people: `1m 30s`, `12ms`.

use std::time::Duration;

use serde::Serializer;

/// Cut to milliseconds; nobody reads the rest.
fn format(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(millis)).to_string()
}

pub(crate) fn duration<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*duration))
}

pub(crate) fn optional_duration<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => serializer.serialize_some(&format(*duration)),
        None => serializer.serialize_none(),
    }
}
