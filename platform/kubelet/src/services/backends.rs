//! The endpoints behind one address, and whose turn it is.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::plan::Target;

/// How many clients are remembered before those are forgotten whose time is over.
const REMEMBERED: usize = 4096;

/// Endpoints, taken in turn, unless a client is to stay with its own.
#[derive(Debug)]
pub(super) struct Backends {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    target: Target,
    turn: usize,
    /// Where each client was led to, and when it was last seen.
    clients: HashMap<IpAddr, (SocketAddr, Instant)>,
}

// === impl Backends ===

impl Backends {
    pub(super) fn new(target: Target) -> Self {
        Self { inner: Mutex::new(Inner { target, turn: 0, clients: HashMap::new() }) }
    }

    pub(super) fn set(&self, target: Target) {
        let mut inner = self.lock();
        inner.clients.retain(|_, (backend, _)| target.backends.contains(backend));
        inner.target = target;
    }

    pub(super) fn contains(&self, backend: SocketAddr) -> bool {
        self.lock().target.backends.contains(&backend)
    }

    /// Where a client goes, if there is anywhere to go.
    pub(super) fn choose(&self, client: IpAddr) -> Option<SocketAddr> {
        self.lock().choose(client, None, Instant::now())
    }

    /// Where a client goes after `failed` did not answer: somewhere else.
    pub(super) fn choose_other(&self, client: IpAddr, failed: SocketAddr) -> Option<SocketAddr> {
        let mut inner = self.lock();
        inner.clients.remove(&client);
        inner.choose(client, Some(failed), Instant::now())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Inner ===

impl Inner {
    fn choose(&mut self, client: IpAddr, except: Option<SocketAddr>, now: Instant) -> Option<SocketAddr> {
        let Some(limit) = self.target.affinity else { return self.next(except) };
        if let Some((backend, seen)) = self.clients.get_mut(&client)
            && now.duration_since(*seen) < limit
        {
            *seen = now;
            return Some(*backend);
        }
        let backend = self.next(except)?;
        self.remember(client, backend, now, limit);
        Some(backend)
    }

    fn next(&mut self, except: Option<SocketAddr>) -> Option<SocketAddr> {
        let count = self.target.backends.len();
        for _ in 0..count {
            let backend = self.target.backends[self.turn % count];
            self.turn = (self.turn + 1) % count;
            if Some(backend) != except {
                return Some(backend);
            }
        }
        None
    }

    fn remember(&mut self, client: IpAddr, backend: SocketAddr, now: Instant, limit: Duration) {
        if self.clients.len() >= REMEMBERED && !self.clients.contains_key(&client) {
            self.clients.retain(|_, (_, seen)| now.duration_since(*seen) < limit);
            if self.clients.len() >= REMEMBERED {
                // All of them were here lately. One more would cost without end; this one takes its turn instead.
                return;
            }
        }
        self.clients.insert(client, (backend, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(backends: &[&str], affinity: Option<u64>) -> Target {
        Target {
            backends: backends.iter().map(|text| text.parse().unwrap()).collect(),
            affinity: affinity.map(Duration::from_secs),
        }
    }

    fn client(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    #[test]
    fn endpoints_take_turns_and_one_that_fails_is_passed_over() {
        let backends = Backends::new(target(&["10.1.0.1:1", "10.1.0.2:1"], None));
        let first = backends.choose(client(1)).unwrap();
        assert_ne!(backends.choose(client(1)), Some(first));
        for _ in 0..3 {
            assert_ne!(backends.choose_other(client(1), first), Some(first));
        }
        backends.set(target(&["10.1.0.1:1"], None));
        assert_eq!(backends.choose_other(client(1), "10.1.0.1:1".parse().unwrap()), None);
        backends.set(target(&[], None));
        assert_eq!(backends.choose(client(1)), None);
    }

    #[test]
    fn clients_stay_until_their_time_is_over_or_their_endpoint_gone() {
        let names = ["10.1.0.1:1", "10.1.0.2:1", "10.1.0.3:1"];
        let backends = Backends::new(target(&names, Some(10)));
        let mut now = Instant::now();
        let own = backends.lock().choose(client(1), None, now).unwrap();
        for _ in 0..3 {
            now += Duration::from_secs(9);
            let again = backends.lock().choose(client(1), None, now);
            assert_eq!(again, Some(own), "every visit begins the time anew");
            assert_ne!(backends.lock().choose(client(2), None, now), Some(own));
            backends.set(target(&names, Some(10)));
        }
        now += Duration::from_secs(10);
        let next = backends.lock().choose(client(1), None, now).unwrap();
        assert_ne!(next, own);

        let rest: Vec<_> = names.iter().copied().filter(|name| *name != next.to_string()).collect();
        backends.set(target(&rest, Some(10)));
        let last = backends.choose(client(1)).unwrap();
        assert_ne!(last, next);
        let other = backends.choose_other(client(1), last).unwrap();
        assert_ne!(other, last);
        assert_eq!(backends.choose(client(1)), Some(other), "the one that answered is the client's own now");
    }
}
