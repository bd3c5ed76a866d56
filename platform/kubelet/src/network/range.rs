use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A range of addresses, such as `10.200.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    first: u32,
    prefix: u8,
}

impl Range {
    pub(crate) fn first(self) -> Ipv4Addr {
        self.first.into()
    }

    pub(crate) fn prefix(self) -> u8 {
        self.prefix
    }

    /// How many addresses there are.
    pub(crate) fn size(self) -> u32 {
        // At most 2^24: wider ranges are refused.
        1 << (32 - self.prefix)
    }

    /// The address at this place, counted from the first.
    pub(crate) fn at(self, place: u32) -> Ipv4Addr {
        (self.first + place).into()
    }

    /// The place of an address, if it is in the range.
    pub(crate) fn place(self, address: Ipv4Addr) -> Option<u32> {
        u32::from(address).checked_sub(self.first).filter(|place| *place < self.size())
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.first(), self.prefix)
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a range such as 10.200.0.0/16, between /8 and /30");
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        if !(8..=30).contains(&prefix) {
            return Err(wrong());
        }
        let mask = u32::MAX << (32 - prefix);
        Ok(Self { first: u32::from(address) & mask, prefix })
    }
}
