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
use tokio::time::Instant;

/// So many bytes at most, all in all.
const ROOM: usize = 4 << 20;
/// What an event takes beside its data, about.
const OVERHEAD: usize = 1_024;
/// What nobody fetched for so long is another replica's, or waits for a broker.
const KEPT: Duration = Duration::from_secs(30);

/// A cheap handle.
#[derive(Clone, Debug, Default)]
pub(super) struct Accepted(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    waiting: HashMap<String, (Instant, Order)>,
    /// By age; some have been fetched, or replaced.
    ages: VecDeque<(Instant, String)>,
    bytes: usize,
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

    /// Fetches a bundle.
    pub(super) fn take(&self, id: &str) -> Option<Order> {
        self.lock().forget(id)
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
        assert_eq!(accepted.take("a").map(|order| order.version), Some(2));
        assert!(accepted.take("a").is_none());
        assert_eq!(accepted.lock().bytes, 0);
        let fits = ROOM / (100_000 + OVERHEAD);
        for number in 0..100 {
            accepted.put(&number.to_string(), order(&note, 1, 100_000));
        }
        assert!(accepted.lock().bytes <= ROOM);
        assert!(accepted.take("0").is_some() && accepted.take(&(fits - 1).to_string()).is_some());
        assert!(accepted.take(&fits.to_string()).is_none(), "the first ones stay");
        // What nobody wants makes room.
        tokio::time::advance(KEPT).await;
        accepted.put("new", order(&note, 1, 10));
        let inner = accepted.lock();
        assert_eq!((inner.waiting.len(), inner.ages.len(), inner.bytes), (1, 1, 10 + OVERHEAD));
    }
}
