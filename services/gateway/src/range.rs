//! Addresses, and ranges of them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// One address, or all that begin alike: `203.0.113.7`, `10.0.0.0/8`, `fd00::/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Range(IpNet);

/// What is no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address and no range of addresses; write it as 203.0.113.7 or 10.0.0.0/8")]
pub struct NoRange(String);

// === impl Range ===

impl Range {
    /// Whether the address is one of these. An IPv4 address is the same in the clothes of IPv6.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// Whether the address is in any of these.
    pub fn any(ranges: &[Self], address: IpAddr) -> bool {
        ranges.iter().any(|range| range.contains(address))
    }
}

impl FromStr for Range {
    type Err = NoRange;

    fn from_str(text: &str) -> Result<Self, NoRange> {
        let range = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        range.map(Self).map_err(|_| NoRange(text.to_owned()))
    }
}

impl TryFrom<String> for Range {
    type Error = NoRange;

    fn try_from(text: String) -> Result<Self, NoRange> {
        text.parse()
    }
}

impl From<Range> for String {
    fn from(range: Range) -> Self {
        range.to_string()
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_either_family_is_found_in_its_range() {
        let range: Range = "203.0.113.0/24".parse().unwrap();
        for (address, inside) in [
            ("203.0.113.0", true),
            ("203.0.113.255", true),
            ("203.0.114.0", false),
            ("::ffff:203.0.113.9", true),
            ("::203.0.113.9", false),
        ] {
            assert_eq!(range.contains(address.parse().unwrap()), inside, "{address}");
        }
        let one: Range = "2001:db8::1".parse().unwrap();
        assert!(
            one.contains("2001:db8::1".parse().unwrap()) && !one.contains("2001:db8::2".parse().unwrap())
        );
        let error = "10.0.0.0/33".parse::<Range>().unwrap_err().to_string();
        assert!(error.contains("`10.0.0.0/33` is no address") && error.ends_with("10.0.0.0/8"), "{error}");
    }
}
