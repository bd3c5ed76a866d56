//! Ranges of IPv4 addresses, as a specification writes them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// A range of IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    base: u32,
    length: u32,
}

impl Range {
    /// `None` if it is no IPv4 range, has bits beyond its prefix, or is too small for anything.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let base = u32::from(address.parse::<Ipv4Addr>().ok()?);
        let length = length.parse().ok().filter(|length| (1..=30).contains(length))?;
        // Bits beyond the prefix are somebody's mistake.
        (base & !mask(length) == 0).then_some(Self { base, length })
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let mask = mask(self.length.min(other.length));
        self.base & mask == other.base & mask
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => u32::from(address) & mask(self.length) == self.base,
            IpAddr::V6(_) => false,
        }
    }

    /// The first address that can be given away.
    pub(crate) fn first(&self) -> IpAddr {
        Ipv4Addr::from(self.base + 1).into()
    }

    pub(crate) fn length(&self) -> u32 {
        self.length
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", Ipv4Addr::from(self.base), self.length)
    }
}

fn mask(length: u32) -> u32 {
    u32::MAX << (32 - length)
}
