//! Durations as people write them in annotations: `90s`, `10m`, `1h30m`, `8760h`.

use std::time::Duration;

/// `None` if it is none, or nothing at all.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_ascii_digit())?;
        let number: u64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let (unit, length) = match rest {
            _ if rest.starts_with("ms") => (Duration::from_millis(1), 2),
            _ if rest.starts_with('s') => (Duration::from_secs(1), 1),
            _ if rest.starts_with('m') => (Duration::from_secs(60), 1),
            _ if rest.starts_with('h') => (Duration::from_secs(3600), 1),
            _ => return None,
        };
        total = total.checked_add(unit.checked_mul(u32::try_from(number).ok()?)?)?;
        rest = &rest[length..];
    }
    (!total.is_zero()).then_some(total)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("90s", Some(90_000))]
    #[case("1h30m", Some(5_400_000))]
    #[case("8760h", Some(31_536_000_000))]
    #[case("250ms", Some(250))]
    #[case("", None)]
    #[case("0s", None)]
    #[case("10", None)]
    #[case("1d", None)]
    #[case("-5m", None)]
    #[case("99999999999h", None)]
    fn durations_are_read_as_they_are_written(#[case] text: &str, #[case] milliseconds: Option<u64>) {
        assert_eq!(parse(text), milliseconds.map(Duration::from_millis));
    }
}
