//! Whose turn it is.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

/// Keys that share their turns with one another: all of one customer's, for instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lane(u128);

/// Which lane a key stands in.
#[derive(Clone)]
pub(super) struct LaneOf<K>(Arc<dyn Fn(&K) -> Lane + Send + Sync>);

/// Keys that are ready, in lanes that take turns. Within a lane they are served in order of arrival.
///
/// Everything is logarithmic in the number of keys and lanes.
#[derive(Debug)]
pub(super) struct Ready<K> {
    lanes: HashMap<Lane, Queued<K>>,
    /// The lanes that have somebody, in the order of their turns.
    turns: BTreeMap<u64, Lane>,
    next_turn: u64,
}

#[derive(Debug)]
struct Queued<K> {
    turn: u64,
    keys: BTreeMap<u64, K>,
}

impl Lane {
    /// The lane of everybody who is in no other. It alone may take every place.
    pub const COMMON: Self = Self(0);

    /// The lane of this number, such as a UUID's.
    pub const fn new(number: u128) -> Self {
        Self(number)
    }
}

impl<K> LaneOf<K> {
    pub(super) fn new(lane_of: impl Fn(&K) -> Lane + Send + Sync + 'static) -> Self {
        Self(Arc::new(lane_of))
    }

    pub(super) fn of(&self, key: &K) -> Lane {
        (self.0)(key)
    }
}

impl<K> fmt::Debug for LaneOf<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LaneOf")
    }
}

impl<K> Default for Ready<K> {
    fn default() -> Self {
        Self { lanes: HashMap::new(), turns: BTreeMap::new(), next_turn: 0 }
    }
}

impl<K: Clone> Ready<K> {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Puts a key at the end of its lane; a lane that had nobody waits for one turn of all others.
    pub(super) fn insert(&mut self, lane: Lane, number: u64, key: K) {
        let (turns, next_turn) = (&mut self.turns, &mut self.next_turn);
        let queued = self.lanes.entry(lane).or_insert_with(|| {
            *next_turn += 1;
            turns.insert(*next_turn, lane);
            Queued { turn: *next_turn, keys: BTreeMap::new() }
        });
        queued.keys.insert(number, key);
    }

    pub(super) fn remove(&mut self, lane: Lane, number: u64) {
        let Some(queued) = self.lanes.get_mut(&lane) else { return };
        queued.keys.remove(&number);
        if queued.keys.is_empty() {
            self.turns.remove(&queued.turn);
            self.lanes.remove(&lane);
        }
    }

    /// The first key of the lane whose turn it is, among those that `may` have it. That lane is last from now on.
    pub(super) fn take_turn(&mut self, may: impl Fn(Lane) -> bool) -> Option<K> {
        let (turn, lane) =
            self.turns.iter().find(|(_, lane)| may(**lane)).map(|(turn, lane)| (*turn, *lane))?;
        self.turns.remove(&turn);
        self.next_turn += 1;
        self.turns.insert(self.next_turn, lane);
        let queued = self.lanes.get_mut(&lane)?;
        queued.turn = self.next_turn;
        queued.keys.values().next().cloned()
    }
}
