//! Every object of the server, encoded, in the order of its key.
//!
//! Bytes and not values: an object of two kilobytes takes two kilobytes, an unfiltered list is a concatenation, and a
//! watch event is the bytes that are already there. What needs to look inside parses on demand.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;
use tokio::sync::{Notify, watch};

use super::history::{Event, History};
use super::topics::Topics;
use crate::metrics::Metrics;

#[derive(Debug)]
pub(crate) struct Cache {
    state: RwLock<State>,
    through: watch::Sender<u64>,
    /// Asks the follower to look at once, although nothing of this partition happened.
    pub(super) hurried: Notify,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Arc<str>, Bytes>,
    bytes: usize,
    history: History,
    through: u64,
    /// When each collection last changed.
    touched: HashMap<Box<str>, u64>,
    topics: Topics,
}

/// Some of the objects, all of one instant.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) objects: Vec<(Arc<str>, Bytes)>,
    pub(crate) revision: u64,
}

impl Cache {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { state: RwLock::default(), through: watch::Sender::new(0), hurried: Notify::new(), metrics }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts over. Watches find that their place is before the floor, and catch up from the store or are told to list.
    pub(super) fn reset(&self, objects: BTreeMap<Arc<str>, Bytes>, revision: u64) {
        {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let touched =
                objects.keys().map(|key| (Box::from(collection(key)), revision)).collect::<HashMap<_, _>>();
            let mut topics = std::mem::take(&mut state.topics);
            *state = State {
                bytes: objects.values().map(Bytes::len).sum(),
                objects,
                history: History::starting_at(revision),
                through: revision,
                touched,
                topics: Topics::default(),
            };
            topics.restart(revision);
            state.topics = topics;
            self.measure(&state);
        }
        self.through.send_replace(revision);
    }

    /// Takes changes over, in order; everything up to `through` is then known. `None` is a deletion.
    pub(super) fn apply(&self, changes: Vec<(u64, Arc<str>, Option<Bytes>)>, through: u64) {
        if changes.is_empty() && self.through() >= through {
            return;
        }
        {
            let mut guard = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let state = &mut *guard;
            for (revision, key, after) in changes {
                let before = match &after {
                    Some(bytes) => {
                        state.bytes += bytes.len();
                        state.objects.insert(Arc::clone(&key), bytes.clone())
                    }
                    None => state.objects.remove(&key),
                };
                state.bytes -= before.as_ref().map_or(0, Bytes::len);
                match state.touched.get_mut(collection(&key)) {
                    Some(touched) => *touched = revision,
                    None => {
                        state.touched.insert(collection(&key).into(), revision);
                    }
                }
                let topics = &mut state.topics;
                topics.changed(&key, revision);
                let event = Arc::new(Event::new(revision, key, before, after));
                state.history.push(event, |event| topics.forgotten(&event.key, event.revision));
            }
            state.through = through;
            self.measure(state);
        }
        self.through.send_replace(through);
    }

    fn measure(&self, state: &State) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.metrics.objects.set(count(state.objects.len()));
        self.metrics.object_bytes.set(count(state.bytes));
        self.metrics.history_bytes.set(count(state.history.bytes()));
    }

    /// Everything up to here is known.
    pub(crate) fn through(&self) -> u64 {
        *self.through.borrow()
    }

    /// Told whenever something happens to what a topic is about. To be left with [`leave`](Self::leave).
    pub(super) fn follow(&self, topic: &str) -> watch::Receiver<u64> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let floor = state.history.floor();
        state.topics.follow(topic, floor)
    }

    pub(super) fn leave(&self, topic: &str) {
        self.state.write().unwrap_or_else(PoisonError::into_inner).topics.leave(topic);
    }

    /// Told whenever more is known.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.through.subscribe()
    }

    /// Returns once everything up to a version is known.
    pub(crate) async fn reach(&self, revision: u64) {
        // The sender is ours, so waiting cannot fail.
        let _ = self.through.subscribe().wait_for(|through| *through >= revision).await;
    }

    /// A version may have been made by another partition of the same store; then nothing wakes the follower.
    pub(crate) fn hurry(&self, revision: u64) {
        if self.through() < revision {
            self.hurried.notify_one();
        }
    }

    /// When anything in a collection (`roles.rbac.authorization.k8s.io`) last changed.
    pub(crate) fn touched(&self, collection: &str) -> u64 {
        self.read().touched.get(collection).copied().unwrap_or_default()
    }

    pub(crate) fn get(&self, key: &str) -> Option<Bytes> {
        self.read().objects.get(key).cloned()
    }

    /// All objects under a prefix.
    pub(crate) fn snapshot(&self, prefix: &str) -> Snapshot {
        self.snapshot_from(prefix, "")
    }

    /// Objects under a prefix, behind a key.
    pub(crate) fn snapshot_from(&self, prefix: &str, behind: &str) -> Snapshot {
        let state = self.read();
        let from = if behind.is_empty() { prefix } else { behind };
        let objects = state
            .objects
            .range::<str, _>((Bound::Included(from), Bound::Unbounded))
            .skip_while(|(key, _)| !behind.is_empty() && key.as_ref() == behind)
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, bytes)| (Arc::clone(key), bytes.clone()))
            .collect();
        Snapshot { objects, revision: state.through }
    }

    /// What happened after a version to what a topic is about, and up to which version that is complete. `None` if it was so
    /// long ago that it is no longer in memory.
    pub(crate) fn events(&self, after: u64, topic: &str) -> Option<(Vec<Arc<Event>>, u64)> {
        let state = self.read();
        let complete_after = state.topics.complete_after(topic).unwrap_or_else(|| state.history.floor());
        (complete_after <= after).then(|| (state.history.after(after, topic), state.through.max(after)))
    }
}

/// What a key belongs to: everything before the first slash.
fn collection(key: &str) -> &str {
    key.split_once('/').map_or(key, |(collection, _)| collection)
}
