//! The newest changes, in memory, for watches that follow closely.
//!
//! Bounded by number and by size, since it is paid for by every process even if nobody watches. A watch that falls
//! further behind is served from the store's history; only what the store has forgotten is gone.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::topics;

const LONGEST: usize = 1024;
const LARGEST: usize = 2 << 20;

/// Of larger objects every watch writes its own line.
const LARGEST_SHARED: usize = 4 << 10;

/// What happened to one object. Both states are encoded, each at its own version.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) key: Arc<str>,
    pub(crate) before: Option<Bytes>,
    pub(crate) after: Option<Bytes>,
    line: OnceLock<Bytes>,
}

#[derive(Debug, Default)]
pub(super) struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Every event after this version is here.
    floor: u64,
}

impl History {
    pub(super) fn starting_at(floor: u64) -> Self {
        Self { floor, ..Self::default() }
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a change, and tells of those that had to go for it.
    pub(super) fn push(&mut self, event: Arc<Event>, mut forget: impl FnMut(&Event)) {
        self.bytes += event.size();
        self.events.push_back(event);
        // One transaction may hold several events; half of one would be a gap.
        while self.events.len() > LONGEST
            || self.bytes > LARGEST
            || self.events.front().is_some_and(|next| next.revision == self.floor)
        {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.size();
            self.floor = oldest.revision;
            forget(&oldest);
        }
    }

    /// What is still known to have happened after a version to what a topic is about, in order.
    pub(super) fn after(&self, revision: u64, topic: &str) -> Vec<Arc<Event>> {
        let start = self.events.partition_point(|event| event.revision <= revision);
        let concerned = |event: &&Arc<Event>| topics::covers(topic, &event.key);
        self.events.iter().skip(start).filter(concerned).cloned().collect()
    }
}

impl Event {
    pub(crate) fn new(revision: u64, key: Arc<str>, before: Option<Bytes>, after: Option<Bytes>) -> Self {
        Self { revision, key, before, after, line: OnceLock::new() }
    }

    /// What is sent to everybody who sees the whole object as it is. Made once, for as many as there are.
    pub(crate) fn line(&self, make: impl Fn() -> Bytes) -> Bytes {
        match self.after.as_ref().is_none_or(|after| after.len() > LARGEST_SHARED) {
            true => make(),
            false => self.line.get_or_init(make).clone(),
        }
    }

    /// The state after is shared with the present one; the one before is what the history costs.
    fn size(&self) -> usize {
        self.before.as_ref().map_or(0, Bytes::len) + self.key.len() + size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: u64, key: &str, size: usize) -> Arc<Event> {
        let before = Some(Bytes::from(vec![b'x'; size]));
        Arc::new(Event::new(revision, key.into(), before, None))
    }

    #[test]
    fn what_is_forgotten_is_forgotten_by_whole_transactions() {
        let mut history = History::starting_at(4);
        let mut forgotten = Vec::new();
        for (revision, key, size) in
            [(5, "pods/a/x", LARGEST / 2), (5, "pods/a/y", 10), (6, "pods/b/x", LARGEST / 2)]
        {
            if revision == 6 {
                assert_eq!(history.after(4, "pods/").len(), 2);
                assert!(forgotten.is_empty());
            }
            history.push(event(revision, key, size), |event| forgotten.push(event.key.clone()));
        }
        assert_eq!(forgotten, ["pods/a/x".into(), "pods/a/y".into()]);
        assert_eq!(history.floor(), 5);
        let left: Vec<_> = history.after(5, "pods/").iter().map(|event| event.revision).collect();
        assert_eq!(left, [6]);
        assert!(history.after(5, "pods/a/").is_empty());
        assert!(history.bytes() < LARGEST);
    }
}
