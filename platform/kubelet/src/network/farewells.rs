use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio_util::sync::CancellationToken;

/// Tells whoever talks to a pod that its network is gone: a connection into nowhere would not notice for minutes.
#[derive(Debug, Default)]
pub(super) struct Farewells {
    waiting: Mutex<HashMap<IpAddr, Weak<CancellationToken>>>,
}

/// Who nobody waits for is swept out when there are this many, and each time there are twice as many as last.
const SWEPT: usize = 64;

impl Farewells {
    /// Cancelled when the pod of this address goes.
    pub(super) fn of(&self, address: IpAddr) -> Arc<CancellationToken> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = waiting.get(&address).and_then(Weak::upgrade) {
            return token;
        }
        if waiting.len() >= SWEPT && waiting.len() == waiting.capacity() {
            waiting.retain(|_, token| token.strong_count() > 0);
        }
        let token = Arc::new(CancellationToken::new());
        waiting.insert(address, Arc::downgrade(&token));
        token
    }

    pub(super) fn tell(&self, pod: Ipv4Addr) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = waiting.remove(&pod.into()).and_then(|token| token.upgrade()) {
            token.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_of_the_pod_are_told_and_nobody_is_kept_for_ever() {
        let farewells = Farewells::default();
        let (one, two) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let (first, same, other) =
            (farewells.of(one.into()), farewells.of(one.into()), farewells.of(two.into()));
        farewells.tell(one);
        assert!(first.is_cancelled() && same.is_cancelled() && !other.is_cancelled());
        assert!(!farewells.of(one.into()).is_cancelled(), "the next pod of that address is another");

        for number in 0..100_000_u32 {
            farewells.of(Ipv4Addr::from(number).into());
        }
        assert!(farewells.waiting.lock().unwrap().len() < 10_000);
        farewells.tell(two);
        assert!(other.is_cancelled());
    }
}
