//! How much strangers may ask.
//!
//! Anybody can send a datagram in the name of somebody else, who then gets an answer larger than what was sent. So a network
//! that asks too much is answered that it should ask over a connection, which takes no more room than the question did and is
//! nothing that a made-up sender can do. Of connections, and of the time for each, nobody has more than a part.
//!
//! The machine itself is no stranger.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How many connections may come from one address, of all that there are.
const CONNECTIONS: usize = 16;
/// How much time one question of a network takes of what it has, and how many it may ask at once: a large resolver asks for many
/// people.
const STEP: Duration = Duration::from_millis(5);
const AT_ONCE: u32 = 1_000;
/// How many networks are remembered; those that ask little are forgotten first.
const NETWORKS: usize = 64 * 1024;

/// What networks have asked lately by datagrams.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// Until when each has used up what it has.
    used: HashMap<Network, Instant>,
}

/// Connections by where they come from. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    open: Arc<Mutex<HashMap<Network, usize>>>,
}

/// One of the places of an address, given back when dropped.
#[derive(Debug)]
pub(crate) struct OriginPlace {
    counted: Option<(Origins, Network)>,
}

/// An address up to a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Network {
    V4(u32),
    V6(u128),
}

// === impl Questions ===

impl Questions {
    /// Whether a question of this address is answered, as far as it goes by datagrams.
    pub(crate) fn admit(&mut self, client: IpAddr) -> bool {
        let Some(network) = Network::of(client, 24, 56) else { return true };
        let now = Instant::now();
        if self.used.len() >= NETWORKS && !self.used.contains_key(&network) {
            self.used.retain(|_, until| *until > now);
            if self.used.len() >= NETWORKS {
                // Too many that all ask too much, and cannot be told from made-up ones: all begin anew.
                self.used.clear();
            }
        }
        let until = self.used.entry(network).or_insert(now);
        let begins = (*until).max(now);
        if begins - now >= STEP * AT_ONCE {
            return false;
        }
        *until = begins + STEP;
        true
    }
}

// === impl Origins ===

impl Origins {
    /// A place among those of an address, if there is one.
    pub(crate) fn enter(&self, client: IpAddr) -> Option<OriginPlace> {
        let Some(origin) = Network::of(client, 32, 64) else { return Some(OriginPlace { counted: None }) };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(origin).or_default();
        if *count >= CONNECTIONS {
            return None;
        }
        *count += 1;
        drop(open);
        Some(OriginPlace { counted: Some((self.clone(), origin)) })
    }
}

impl Drop for OriginPlace {
    fn drop(&mut self) {
        let Some((origins, origin)) = self.counted.take() else { return };
        let mut open = origins.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                open.remove(&origin);
            }
        }
    }
}

// === impl Network ===

impl Network {
    /// So many bits of an address; `None` for those of the machine itself.
    fn of(address: IpAddr, v4: u32, v6: u32) -> Option<Self> {
        match address.to_canonical() {
            address if address.is_loopback() => None,
            IpAddr::V4(address) => Some(Self::V4(address.to_bits() >> (32 - v4))),
            IpAddr::V6(address) => Some(Self::V6(address.to_bits() >> (128 - v6))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn network_may_ask_so_much_and_again_later_and_others_are_others() {
        let mut questions = Questions::default();
        for _ in 0..AT_ONCE {
            assert!(questions.admit(address("203.0.113.9")));
        }
        assert!(!questions.admit(address("203.0.113.200")), "it is the same network");
        assert!(questions.admit(address("203.0.114.9")) && questions.admit(address("2001:db8::1")));
        tokio::time::advance(3 * STEP).await;
        let admitted = (0..5).filter(|_| questions.admit(address("203.0.113.9"))).count();
        assert_eq!(admitted, 3);
        assert!((0..2 * AT_ONCE).all(|_| questions.admit(address("127.0.0.1"))));
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_networks_are_remembered() {
        let mut questions = Questions::default();
        for number in 0..2 * u32::try_from(NETWORKS).unwrap() {
            assert!(questions.admit(IpAddr::from((0x0b00_0000 + (number << 8)).to_be_bytes())));
        }
        assert!(questions.used.len() <= NETWORKS);
    }

    #[test]
    fn nobody_has_all_connections_and_places_are_given_back() {
        let origins = Origins::default();
        let enter = |text: &str| origins.enter(address(text));
        let mut places: Vec<_> = (0..CONNECTIONS).map(|_| enter("203.0.113.9").unwrap()).collect();
        assert!(enter("203.0.113.9").is_none() && enter("::ffff:203.0.113.9").is_none());
        assert!(enter("203.0.113.10").is_some() && enter("127.0.0.1").is_some());
        places.pop();
        assert!(enter("203.0.113.9").is_some());
        places.clear();
        assert!(origins.open.lock().unwrap().is_empty());
    }
}
