//! Whether to try again, and when: a pure decision.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// Methods that mean the same whether they arrive once or twice.
pub(super) fn is_idempotent(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::PUT | Method::DELETE | Method::OPTIONS)
}

/// Answers that say "not now" rather than "no".
pub(super) fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// How long the peer asks to be left alone: seconds or a date.
pub(super) fn asked_delay(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_may_ask_in_seconds_or_by_date() {
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        let asked =
            |value: &str| asked_delay(&HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]), now);
        assert_eq!(asked("7"), Some(Duration::from_secs(7)));
        assert_eq!(asked("Sun, 01 Mar 2026 12:01:00 GMT"), Some(Duration::from_secs(60)));
        assert_eq!(asked("Sun, 01 Mar 2026 11:00:00 GMT"), Some(Duration::ZERO), "already over");
        assert_eq!(asked("soon"), None);
        assert_eq!(asked("-1"), None);
        assert_eq!(asked_delay(&HeaderMap::new(), now), None);
    }

    #[test]
    fn only_methods_that_may_arrive_twice_are_repeated() {
        for (method, expected) in [
            (Method::GET, true),
            (Method::HEAD, true),
            (Method::PUT, true),
            (Method::DELETE, true),
            (Method::OPTIONS, true),
            (Method::POST, false),
            (Method::PATCH, false),
            (Method::CONNECT, false),
        ] {
            assert_eq!(is_idempotent(&method), expected, "{method}");
        }
    }
}
