//! Connections by where they come from: nobody may have all places, also by coming to many clusters.
//!
//! An IPv6 address counts with all others of its network of 64 bits: whoever has one of them has them all. Those of the machine
//! itself are not counted: it is no stranger, and what stands in front of the gateway there speaks for everybody.

use std::array;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So that connections that begin at once do not wait for each other.
const SHARDS: usize = 64;

/// How many connections there are from each address. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Addresses(Arc<Shards>);

#[derive(Debug)]
struct Shards {
    /// Nobody can know which addresses meet.
    hasher: RandomState,
    open: [Mutex<HashMap<Origin, usize>>; SHARDS],
}

/// What is counted as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    V4(u32),
    V6(u128),
}

/// One of the places of an address, given back when dropped.
#[derive(Debug)]
pub(crate) struct AddressPlace {
    /// Absent where nobody counts.
    counted: Option<(Addresses, Origin)>,
}

// === impl Addresses ===

impl Addresses {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shards { hasher: RandomState::new(), open: array::from_fn(|_| Mutex::default()) }))
    }

    /// A place among those of an address, if there is one.
    pub(crate) fn enter(&self, address: IpAddr, most: usize) -> Option<AddressPlace> {
        let Some(origin) = Origin::of(address) else { return Some(AddressPlace { counted: None }) };
        let mut open = self.shard(origin);
        let count = open.entry(origin).or_default();
        // At least one, so that no entry stays behind that counts nobody.
        if *count >= most.max(1) {
            return None;
        }
        *count += 1;
        drop(open);
        Some(AddressPlace { counted: Some((self.clone(), origin)) })
    }

    fn shard(&self, origin: Origin) -> MutexGuard<'_, HashMap<Origin, usize>> {
        let hash = self.0.hasher.hash_one(origin);
        let index = usize::try_from(hash % SHARDS as u64).unwrap_or_default();
        self.0.open[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Origin ===

impl Origin {
    /// `None` for addresses of the machine itself.
    fn of(address: IpAddr) -> Option<Self> {
        match address.to_canonical() {
            address if address.is_loopback() => None,
            IpAddr::V4(address) => Some(Self::V4(address.to_bits())),
            // The upper half.
            IpAddr::V6(address) => Some(Self::V6(address.to_bits() >> 64)),
        }
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let Some((addresses, origin)) = self.counted.take() else { return };
        let mut open = addresses.shard(origin);
        if let Some(count) = open.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                open.remove(&origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_one_address_are_not_those_of_another_and_are_given_back() {
        let addresses = Addresses::new();
        let enter = |address: &str| addresses.enter(address.parse().unwrap(), 1);
        let places = [enter("203.0.113.9"), enter("203.0.113.10"), enter("2001:db8::1")];
        assert!(places.iter().all(Option::is_some));
        for same in ["203.0.113.9", "::ffff:203.0.113.9", "2001:db8::2"] {
            assert!(enter(same).is_none(), "{same}");
        }
        assert!(enter("2001:db8:0:1::1").is_some());
        let own = [enter("127.0.0.1"), enter("127.0.0.1"), enter("::1"), enter("::1")];
        assert!(own.iter().all(Option::is_some));
        drop((places, own));
        assert!(enter("203.0.113.9").is_some());
        assert!(addresses.0.open.iter().all(|shard| shard.lock().unwrap().is_empty()));
    }
}
