//! Parameters of a query.

use crate::path;

/// The first value of a parameter. Names are compared exactly, as ARM does it.
pub(crate) fn parameter(query: &str, name: &str) -> Option<String> {
    let plain = |text: &str| path::decoded(&text.replace('+', " "), |_| true);
    query.split('&').find_map(|pair| {
        let (found, value) = pair.split_once('=').unwrap_or((pair, ""));
        (plain(found) == name).then(|| plain(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_counts_and_names_have_a_case() {
        let query = "%24top=1&$top=2&a=b%20c+d&flag&e=1=2";
        assert_eq!(parameter(query, "$top").as_deref(), Some("1"));
        assert_eq!(parameter(query, "a").as_deref(), Some("b c d"));
        assert_eq!(parameter(query, "flag").as_deref(), Some(""));
        assert_eq!(parameter(query, "e").as_deref(), Some("1=2"));
        assert_eq!(parameter(query, "$Top"), None);
    }
}
