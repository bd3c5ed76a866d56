//! Who is woken by a commit: those who wait for what it touched, and nobody else.
//!
//! A store may have thousands of feeds waiting; a commit costs as many wake-ups as it has partitions,
//! containers and leases, not as there are readers elsewhere.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::engine::Scope;
use crate::plan::Plan;
use crate::{LeaseName, Revision};

/// What can be waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    Scope(Scope),
    Lease(LeaseName),
    /// A document that expires was written.
    Expiry,
}

/// The waiting of one store's readers.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    topics: Mutex<HashMap<Topic, watch::Sender<u64>>>,
    /// Everything up to here has been made known: whoever waits and was not woken has missed nothing.
    seen: AtomicU64,
}

/// One reader's waiting.
#[derive(Debug)]
pub(crate) struct Waiter {
    wakes: Arc<Wakes>,
    topic: Topic,
    receiver: watch::Receiver<u64>,
}

impl Topic {
    /// What a batch has touched.
    pub(crate) fn of(plan: &Plan) -> Vec<Self> {
        let mut topics = HashSet::new();
        for version in &plan.versions {
            topics.insert(Self::Scope(Scope::Partition(version.key.partition.clone())));
            topics.insert(Self::Scope(Scope::Container(version.key.container.clone())));
            if version.expires_at.is_some() {
                topics.insert(Self::Expiry);
            }
        }
        topics.extend(plan.leases.keys().cloned().map(Self::Lease));
        topics.into_iter().collect()
    }
}

impl Wakes {
    pub(crate) fn waiter(self: &Arc<Self>, topic: Topic) -> Waiter {
        let receiver = self.lock().entry(topic.clone()).or_insert_with(|| watch::channel(0).0).subscribe();
        Waiter { wakes: self.clone(), topic, receiver }
    }

    pub(crate) fn wake(&self, topics: &[Topic]) {
        let senders = self.lock();
        for topic in topics {
            if let Some(sender) = senders.get(topic) {
                sender.send_modify(|count| *count += 1);
            }
        }
    }

    pub(crate) fn wake_all(&self) {
        self.lock().values().for_each(|sender| sender.send_modify(|count| *count += 1));
    }

    /// Says that the topics of every commit up to `revision` have been woken.
    pub(crate) fn saw(&self, revision: Revision) {
        self.seen.fetch_max(revision.number(), Ordering::AcqRel);
    }

    pub(crate) fn seen(&self) -> Revision {
        Revision::from_number(self.seen.load(Ordering::Acquire))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Topic, watch::Sender<u64>>> {
        // Nothing in here can panic half-way, so a poisoned lock still guards a sound map.
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// What happens from now on ends the next wait. Call it before looking, so that nothing falls between.
    pub(crate) fn arm(&mut self) {
        self.receiver.borrow_and_update();
    }

    /// Returns when something happened since [`Waiter::arm`].
    pub(crate) async fn woken(&mut self) {
        // The sender lives in the registry as long as this waiter does.
        let _ = self.receiver.changed().await;
    }

    /// A revision up to which nothing happened that this waiter was not woken for, if it was not woken.
    pub(crate) fn quiet_through(&self) -> Option<Revision> {
        let seen = self.wakes.seen.load(Ordering::Acquire);
        let woken = self.receiver.has_changed().unwrap_or(true);
        (!woken).then(|| Revision::from_number(seen))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut topics = self.wakes.lock();
        // This waiter's own receiver is still alive here.
        if topics.get(&self.topic).is_some_and(|sender| sender.receiver_count() <= 1) {
            topics.remove(&self.topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn topic(name: &str) -> Topic {
        Topic::Scope(Scope::Container(name.into()))
    }

    #[test]
    fn only_those_who_wait_for_a_topic_are_woken_and_none_is_kept_when_they_leave() {
        let wakes = Arc::new(Wakes::default());
        let (mut first, mut second) = (wakes.waiter(topic("a")), wakes.waiter(topic("b")));
        first.arm();
        second.arm();
        wakes.wake(&[topic("a"), topic("c")]);
        assert!(first.woken().now_or_never().is_some());
        assert!(second.woken().now_or_never().is_none());
        wakes.wake_all();
        assert!(second.woken().now_or_never().is_some());
        drop((first, second));
        assert!(wakes.lock().is_empty());
    }

    #[test]
    fn quiet_is_only_claimed_without_a_pending_wake() {
        let wakes = Arc::new(Wakes::default());
        let mut waiter = wakes.waiter(topic("a"));
        waiter.arm();
        wakes.wake(&[topic("b")]);
        wakes.saw(Revision::from_number(5));
        assert_eq!(waiter.quiet_through(), Some(Revision::from_number(5)));
        wakes.wake(&[topic("a")]);
        wakes.saw(Revision::from_number(6));
        assert_eq!(waiter.quiet_through(), None);
    }
}
