//! Ages as kubectl writes them: two units while they matter, one when they do not.

use jiff::Timestamp;
use serde_json::{Value, json};

/// How long ago an RFC 3339 timestamp was.
pub(crate) fn since(timestamp: &Value, now: Timestamp) -> Value {
    match timestamp.as_str().map(str::parse::<Timestamp>) {
        Some(Ok(then)) => json!(short(now.as_second() - then.as_second())),
        Some(Err(_)) => json!("<invalid>"),
        None => json!(super::UNKNOWN),
    }
}

/// A number of seconds, short.
pub(crate) fn short(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, "y", days % 365, "d"),
        252_288_000.. => format!("{}y", days / 365),
    }
}

fn pair(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        small => format!("{large}{large_unit}{small}{small_unit}"),
    }
}
