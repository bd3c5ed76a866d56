use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::range::Range;

/// The addresses of a node's pods. The first is the node's own; the range's two ends are nobody's.
#[derive(Debug)]
pub(crate) struct Pool {
    range: Range,
    taken: BTreeSet<u32>,
    /// Where to look next: an address is given out again as late as possible.
    next: u32,
}

/// The network's own address and the node's.
const RESERVED: u32 = 2;

impl Pool {
    pub(crate) fn new(range: Range) -> Self {
        Self { range, taken: BTreeSet::new(), next: RESERVED }
    }

    /// The address of a node in such a range.
    pub(crate) fn node_address(range: Range) -> Ipv4Addr {
        range.at(1)
    }

    /// Keeps an address that a pod already has. Answers whether it may be kept.
    pub(crate) fn reserve(&mut self, address: Ipv4Addr) -> bool {
        match self.range.place(address) {
            Some(place) if place >= RESERVED => self.taken.insert(place),
            _ => false,
        }
    }

    /// A free address, if there is one.
    pub(crate) fn take(&mut self) -> Option<Ipv4Addr> {
        let end = self.range.size() - 1;
        let place = (self.next..end).chain(RESERVED..self.next).find(|place| !self.taken.contains(place))?;
        self.taken.insert(place);
        self.next = if place + 1 < end { place + 1 } else { RESERVED };
        Some(self.range.at(place))
    }

    pub(crate) fn give_back(&mut self, address: Ipv4Addr) {
        if let Some(place) = self.range.place(address) {
            self.taken.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_given_out_once_and_the_oldest_free_one_first() {
        let mut pool = Pool::new("10.1.2.0/29".parse().unwrap());
        assert!(pool.reserve("10.1.2.3".parse().unwrap()));
        assert!(!pool.reserve("10.1.2.3".parse().unwrap()), "two pods must not share an address");
        assert!(!pool.reserve("10.1.2.1".parse().unwrap()), "the node's own address is not a pod's");
        assert!(!pool.reserve("10.9.9.9".parse().unwrap()), "an address of another range cannot be routed");

        let mut taken = Vec::new();
        while let Some(address) = pool.take() {
            taken.push(address.to_string());
        }
        assert_eq!(taken, ["10.1.2.2", "10.1.2.4", "10.1.2.5", "10.1.2.6"]);

        pool.give_back("10.1.2.5".parse().unwrap());
        pool.give_back("10.1.2.4".parse().unwrap());
        assert_eq!(pool.take().unwrap().to_string(), "10.1.2.4");
        pool.give_back("10.1.2.4".parse().unwrap());
        assert_eq!(
            pool.take().unwrap().to_string(),
            "10.1.2.5",
            "a freed address rests while there is another"
        );
    }
}
