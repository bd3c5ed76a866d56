//! Address ranges.

use std::net::Ipv4Addr;

/// A range of IPv4 addresses in network form: no bit set behind the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cidr {
    first: u32,
    last: u32,
}

impl Cidr {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let first = u32::from(address.parse::<Ipv4Addr>().ok()?);
        let length: u32 = length.parse().ok().filter(|length| *length <= 32 && !text.contains('+'))?;
        let hosts = u32::MAX.checked_shr(length).unwrap_or(0);
        (first & hosts == 0).then_some(Self { first, last: first | hosts })
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_strictly_and_compared() {
        let cidr = |text| Cidr::parse(text).unwrap();
        assert!(cidr("10.0.0.0/16").overlaps(cidr("10.0.128.0/24")));
        assert!(!cidr("10.0.0.0/16").overlaps(cidr("10.1.0.0/16")));
        assert!(cidr("0.0.0.0/0").overlaps(cidr("255.255.255.255/32")));
        for text in ["", "10.0.0.0", "10.0.0.1/16", "10.0.0.0/33", "10.0.0.0/+8", "fd00::/8", "10.0.0/8"] {
            assert_eq!(Cidr::parse(text), None, "{text}");
        }
    }
}
