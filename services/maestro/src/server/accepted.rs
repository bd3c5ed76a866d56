//! Bundles that were just accepted, on their way to the outbox.
//!
//! Whoever accepts a bundle has in hand what the outbox would otherwise read back, open and put together anew. It is handed
//! over, as far as there is room; what is not here is read from the store. So nothing depends on it: whatever is handed over
//! was committed before, goes with a note, and is sent again if the note has changed since.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse_maestro_api::CloudEvent;
use pilothouse_store::Etag;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// So many bytes at most, all in all.
const ROOM: usize = 4 << 20;
/// What an event takes beside its data, about.
const OVERHEAD: usize = 1_024;
/// What nobody fetched for so long is another replica's, or waits for a broker.
const KEPT: Duration = Duration::from_secs(30);

/// How long the outbox waits for one that is being accepted. Its note is there already, so it is a matter of microseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// A cheap handle.
#[derive(Clone, Debug, Default)]
pub(super) struct Accepted(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    waiting: HashMap<String, (Instant, Order)>,
    /// By age; some have been fetched, or replaced.
    ages: VecDeque<(Instant, String)>,
    bytes: usize,
    /// Those that are being accepted, how often, and who waits for the end of it.
    expected: HashMap<String, (usize, watch::Sender<()>)>,
}

/// A bundle that is being accepted. The outbox may hear of its note before whoever accepts it hears that it is written.
#[derive(Debug)]
#[must_use]
pub(super) struct Expected {
    accepted: Accepted,
    id: String,
}

/// A bundle as it is to be sent.
#[derive(Debug)]
pub(super) struct Order {
    /// The note that it has to be.
    pub(super) note: Etag,
    pub(super) consumer: String,
    pub(super) version: i32,
    pub(super) event: CloudEvent,
}

impl Accepted {
    /// Hands a bundle over, in place of an earlier version of it.
    pub(super) fn put(&self, id: &str, order: Order) {
        let now = Instant::now();
        let mut inner = self.lock();
        inner.forget(id);
        inner.expire(now);
        // Those that came first are sent first.
        if inner.bytes + order.size() > ROOM {
            return;
        }
        inner.bytes += order.size();
        inner.ages.push_back((now, id.to_owned()));
        inner.waiting.insert(id.to_owned(), (now, order));
    }

    /// Says that a bundle is about to be accepted, until the answer is dropped.
    pub(super) fn expect(&self, id: &str) -> Expected {
        let mut inner = self.lock();
        inner.expected.entry(id.to_owned()).or_insert_with(|| (0, watch::Sender::new(()))).0 += 1;
        Expected { accepted: self.clone(), id: id.to_owned() }
    }

    /// Fetches a bundle; waits for one that is being accepted.
    pub(super) async fn take(&self, id: &str) -> Option<Order> {
        let mut settled = {
            let mut inner = self.lock();
            if let Some(order) = inner.forget(id) {
                return Some(order);
            }
            inner.expected.get(id)?.1.subscribe()
        };
        // It ends by itself with the last who expects it.
        let _ = timeout(PATIENCE, settled.changed()).await;
        self.lock().forget(id)
    }

    /// Drops a bundle that somebody else sends.
    pub(super) fn discard(&self, id: &str) {
        drop(self.lock().forget(id));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn forget(&mut self, id: &str) -> Option<Order> {
        let (_, order) = self.waiting.remove(id)?;
        self.bytes -= order.size();
        Some(order)
    }

    fn expire(&mut self, now: Instant) {
        while let Some((at, id)) = self.ages.front() {
            let is_there = self.waiting.get(id).is_some_and(|(known, _)| known == at);
            if is_there && now.duration_since(*at) < KEPT {
                return;
            }
            if let Some((_, id)) = self.ages.pop_front()
                && is_there
            {
                self.forget(&id);
            }
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        let mut inner = self.accepted.lock();
        let Some((count, _)) = inner.expected.get_mut(&self.id) else { return };
        *count -= 1;
        if *count == 0 {
            inner.expected.remove(&self.id);
        }
    }
}

impl Order {
    fn size(&self) -> usize {
        self.event.data.len() + OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use pilothouse_maestro_api::{Action, EventType, Subresource};
    use pilothouse_store::{Catalog, Container, DocumentId, Location, Options, Partition, Store};

    use super::*;

    async fn etag() -> Etag {
        let container = Container::new("notes");
        let catalog = Catalog::try_new([container.clone()]).unwrap();
        let options = Options::new(Location::memory(), catalog, pilothouse_runtime::Shutdown::new());
        let store = Store::open(options).await.unwrap();
        let partition = Partition::try_new("p").unwrap();
        let made = store.create(&container, &partition, DocumentId::try_new("a").unwrap(), &1).await.unwrap();
        made.etag().unwrap().clone()
    }

    fn order(note: &Etag, version: i32, bytes: usize) -> Order {
        let kind = EventType::new(Subresource::Spec, Action::Create);
        let event = CloudEvent::new("cs", &kind, Timestamp::UNIX_EPOCH).with_data(vec![b'x'; bytes]);
        Order { note: note.clone(), consumer: "c".to_owned(), version, event }
    }

    #[tokio::test(start_paused = true)]
    async fn bundles_are_fetched_once_and_no_more_are_kept_than_there_is_room_for() {
        let (accepted, note) = (Accepted::default(), etag().await);
        accepted.put("a", order(&note, 1, 10));
        accepted.put("a", order(&note, 2, 20));
        assert_eq!(accepted.take("a").await.map(|order| order.version), Some(2));
        assert!(accepted.take("a").await.is_none());
        assert_eq!(accepted.lock().bytes, 0);
        let fits = ROOM / (100_000 + OVERHEAD);
        for number in 0..100 {
            accepted.put(&number.to_string(), order(&note, 1, 100_000));
        }
        assert!(accepted.lock().bytes <= ROOM);
        assert!(accepted.take("0").await.is_some());
        assert!(accepted.take(&(fits - 1).to_string()).await.is_some());
        assert!(accepted.take(&fits.to_string()).await.is_none(), "the first ones stay");
        // What nobody wants makes room.
        tokio::time::advance(KEPT).await;
        accepted.put("new", order(&note, 1, 10));
        let inner = accepted.lock();
        assert_eq!((inner.waiting.len(), inner.ages.len(), inner.bytes), (1, 1, 10 + OVERHEAD));
    }

    #[tokio::test(start_paused = true)]
    async fn bundle_that_is_being_accepted_is_waited_for() {
        let (accepted, note) = (Accepted::default(), etag().await);
        let (first, second) = (accepted.expect("a"), accepted.expect("a"));
        drop(first);
        let accepting = async {
            tokio::time::sleep(PATIENCE / 2).await;
            accepted.put("a", order(&note, 7, 1));
            drop(second);
        };
        let (taken, ()) = tokio::join!(accepted.take("a"), accepting);
        assert_eq!(taken.map(|order| order.version), Some(7));
        // One that is refused in the end is not there, and one that takes too long is read from the store.
        let refused = accepted.expect("b");
        let refusing = async {
            tokio::task::yield_now().await;
            drop(refused);
        };
        let begun = Instant::now();
        let (taken, ()) = tokio::join!(accepted.take("b"), refusing);
        assert!(taken.is_none() && begun.elapsed().is_zero());
        let _slow = accepted.expect("c");
        assert!(accepted.take("c").await.is_none());
    }
}
