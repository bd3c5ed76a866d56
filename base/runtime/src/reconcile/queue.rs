//! Which key is due when, as a data structure without time or tasks of its own.
//!
//! A key is in at most one of three places: *waiting* for a moment, *ready* in a lane, or *running*. A key that
//! is woken while it runs is marked, and becomes ready when its pass ends. A key in no place is at rest
//! and forgotten, unless its last pass failed, which cannot be: a failed key waits for its retry.

use std::collections::hash_map::Entry as HashMapEntry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::mem;
use std::time::Duration;

use tokio::time::Instant;

use super::lanes::{Lane, LaneOf, Ready};
use super::status::{Finished, Totals};
use crate::backoff::{Jitter, Policy};
use crate::instant;

/// One start in so many is taken from the routine lane even if there are urgent keys.
const ROUTINE_SHARE: u64 = 8;

/// How many finished passes are kept for the status page.
const RECENT: usize = 32;

#[derive(Debug)]
pub(super) struct Queue<K> {
    pub(super) entries: HashMap<K, Entry>,
    waiting: BTreeMap<(Instant, u64), K>,
    urgent: Ready<K>,
    routine: Ready<K>,
    pub(super) running: usize,
    /// How many of them in which lane.
    running_in: HashMap<Lane, usize>,
    lane_of: LaneOf<K>,
    /// How many places one lane may take.
    share: usize,
    /// Numbers places, so that equals are served in order of arrival.
    next_place: u64,
    starts: u64,
    policy: Policy,
    jitter: Jitter,
    listing: Listing,
    pub(super) totals: Totals,
    pub(super) recent: VecDeque<Finished<K>>,
}

/// What is known about a key that is not at rest.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) place: Place,
    /// How many passes failed in a row.
    pub(super) failures: u32,
    pub(super) last_error: Option<String>,
    pub(super) last_duration: Option<Duration>,
    /// When the last pass failed: a wake may shorten the wait from there, but not to nothing.
    failed_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Waiting(Instant, u64),
    Ready(Urgency, Lane, u64),
    Running { since: Instant, woken: bool },
}

/// In order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    Urgent,
    Routine,
}

/// How a pass ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    After(Duration),
    Failed(String),
}

#[derive(Debug, Default)]
struct Listing {
    running: bool,
    /// Whether one was asked for since the last one began.
    asked: bool,
    /// Whether the running one, or one that failed before it, was asked for: then its keys are woken, not
    /// merely visited.
    for_wake: bool,
    failures: u32,
}

// === impl Queue ===

impl<K: Clone + Eq + Hash> Queue<K> {
    pub(super) fn new(policy: Policy, jitter: Jitter, lane_of: LaneOf<K>, concurrency: usize) -> Self {
        Self {
            entries: HashMap::new(),
            waiting: BTreeMap::new(),
            urgent: Ready::default(),
            routine: Ready::default(),
            running: 0,
            running_in: HashMap::new(),
            lane_of,
            share: (concurrency * 3 / 4).max(1),
            next_place: 0,
            starts: 0,
            policy,
            jitter,
            // The first one is owed from the beginning.
            listing: Listing { asked: true, ..Listing::default() },
            totals: Totals::default(),
            recent: VecDeque::with_capacity(RECENT),
        }
    }

    /// An event: a pass has to begin after now.
    pub(super) fn wake(&mut self, key: K, now: Instant) {
        self.totals.wakes += 1;
        self.ask(key, Urgency::Urgent, now);
    }

    /// A resync: the key is visited unless a visit is pending anyway.
    fn visit(&mut self, key: K, now: Instant) {
        match self.entries.get(&key) {
            // Its turn comes by the policy; a resync is no reason to believe that it would go better now.
            Some(entry) if entry.failures > 0 => {}
            Some(Entry { place: Place::Running { .. }, .. }) => {}
            _ => self.ask(key, Urgency::Routine, now),
        }
    }

    fn ask(&mut self, key: K, urgency: Urgency, now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else {
            let place = self.make_ready(key.clone(), urgency);
            self.entries.insert(key, Entry::at(place));
            return;
        };
        match &mut entry.place {
            Place::Running { woken, .. } => *woken = true,
            Place::Ready(current, ..) if *current <= urgency => {}
            Place::Ready(..) => self.relocate(key, |queue, key| queue.make_ready(key, urgency)),
            Place::Waiting(until, _) => {
                let earliest = entry.failed_at.map_or(now, |failed_at| failed_at + self.policy.first());
                if earliest <= now {
                    self.relocate(key, |queue, key| queue.make_ready(key, urgency));
                } else if earliest < *until {
                    self.relocate(key, |queue, key| queue.make_wait(key, earliest));
                }
            }
        }
    }

    /// Moves on what has waited long enough, then takes the next key to run.
    pub(super) fn start(&mut self, now: Instant) -> Option<K> {
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now
        {
            let key = first.get().clone();
            self.relocate(key, |queue, key| queue.make_ready(key, Urgency::Urgent));
        }
        let routine_first = self.starts % ROUTINE_SHARE == ROUTINE_SHARE - 1;
        let (running_in, share) = (&self.running_in, self.share);
        let may = |lane| lane == Lane::COMMON || running_in.get(&lane).is_none_or(|running| *running < share);
        let routine = if routine_first { self.routine.take_turn(may) } else { None };
        let key = routine.or_else(|| self.urgent.take_turn(may)).or_else(|| self.routine.take_turn(may))?;
        *self.running_in.entry(self.lane_of.of(&key)).or_default() += 1;
        self.starts += 1;
        self.running += 1;
        self.relocate(key.clone(), |_, _| Place::Running { since: now, woken: false });
        Some(key)
    }

    /// A pass over `key` has ended. Answers how many failures in a row it has put an end to.
    pub(super) fn finish(&mut self, key: &K, outcome: Outcome, now: Instant) -> u32 {
        let Some(entry) = self.entries.get_mut(key) else { return 0 };
        let Place::Running { since, woken } = entry.place else { return 0 };
        self.running -= 1;
        if let HashMapEntry::Occupied(mut running) = self.running_in.entry(self.lane_of.of(key)) {
            *running.get_mut() -= 1;
            if *running.get() == 0 {
                running.remove();
            }
        }
        let duration = now.duration_since(since);
        self.totals.passes += 1;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        let error = match &outcome {
            Outcome::Failed(error) => Some(error.clone()),
            Outcome::Done | Outcome::After(_) => None,
        };
        self.recent.push_back(Finished { key: key.clone(), at: now, duration, error });
        entry.last_duration = Some(duration);

        let mut recovered = 0;
        let place = match outcome {
            Outcome::Failed(error) => {
                let delay = self.policy.delay(entry.failures, &mut self.jitter);
                entry.failures = entry.failures.saturating_add(1);
                entry.last_error = Some(error);
                entry.failed_at = Some(now);
                self.totals.failures += 1;
                let delay = if woken { delay.min(self.policy.first()) } else { delay };
                self.make_wait(key.clone(), instant::after(now, delay))
            }
            Outcome::Done | Outcome::After(_) if woken => {
                recovered = entry.succeeded();
                self.make_ready(key.clone(), Urgency::Urgent)
            }
            Outcome::After(delay) => {
                recovered = entry.succeeded();
                self.make_wait(key.clone(), instant::after(now, delay))
            }
            Outcome::Done => {
                return self.entries.remove(key).map_or(0, |entry| entry.failures);
            }
        };
        if let Some(entry) = self.entries.get_mut(key) {
            entry.place = place;
        }
        recovered
    }

    /// When something that waits becomes ready. Never in the past after [`start`](Self::start) returned `None`.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((until, _), _)| *until)
    }

    /// Nothing runs or could run.
    pub(super) fn is_at_rest(&self, now: Instant) -> bool {
        self.running == 0
            && self.urgent.is_empty()
            && self.routine.is_empty()
            && !self.listing.running
            && !self.listing.asked
            && self.next_due().is_none_or(|due| due > now)
    }

    fn place_number(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place
    }

    fn make_ready(&mut self, key: K, urgency: Urgency) -> Place {
        let (number, lane) = (self.place_number(), self.lane_of.of(&key));
        self.ready(urgency).insert(lane, number, key);
        Place::Ready(urgency, lane, number)
    }

    fn ready(&mut self, urgency: Urgency) -> &mut Ready<K> {
        match urgency {
            Urgency::Urgent => &mut self.urgent,
            Urgency::Routine => &mut self.routine,
        }
    }

    fn make_wait(&mut self, key: K, until: Instant) -> Place {
        let number = self.place_number();
        self.waiting.insert((until, number), key);
        Place::Waiting(until, number)
    }

    /// Takes `key` out of where it is and puts it where `to` says.
    fn relocate(&mut self, key: K, to: impl FnOnce(&mut Self, K) -> Place) {
        match self.entries.get(&key).map(|entry| entry.place) {
            Some(Place::Waiting(until, number)) => drop(self.waiting.remove(&(until, number))),
            Some(Place::Ready(urgency, lane, number)) => self.ready(urgency).remove(lane, number),
            Some(Place::Running { .. }) | None => {}
        }
        let place = to(self, key.clone());
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.place = place;
        }
    }
}

// Listings.
impl<K: Clone + Eq + Hash> Queue<K> {
    /// Asks for a listing that begins after now, and whose keys are all woken.
    pub(super) fn wake_all(&mut self) {
        self.listing.asked = true;
    }

    /// Whether a listing should begin now, given whether its time has come. If so, it has.
    pub(super) fn start_listing(&mut self, due: bool) -> bool {
        if self.listing.running || !(due || self.listing.asked) {
            return false;
        }
        self.listing.for_wake |= mem::take(&mut self.listing.asked);
        self.listing.running = true;
        true
    }

    pub(super) fn listing_runs(&self) -> bool {
        self.listing.running
    }

    /// A listing has ended. Answers how long to wait for the next if it failed.
    pub(super) fn finish_listing(
        &mut self,
        listed: Result<Vec<K>, String>,
        now: Instant,
    ) -> Option<Duration> {
        self.listing.running = false;
        self.totals.listings += 1;
        match listed {
            Ok(keys) => {
                self.listing.failures = 0;
                self.totals.listing_error = None;
                self.totals.listed = keys.len();
                let for_wake = mem::take(&mut self.listing.for_wake);
                for key in keys {
                    if for_wake {
                        self.ask(key, Urgency::Routine, now);
                    } else {
                        self.visit(key, now);
                    }
                }
                None
            }
            Err(error) => {
                self.totals.listing_error = Some(error);
                let delay = self.policy.delay(self.listing.failures, &mut self.jitter);
                self.listing.failures = self.listing.failures.saturating_add(1);
                Some(delay)
            }
        }
    }
}

// === impl Entry ===

impl Entry {
    fn at(place: Place) -> Self {
        Self { place, failures: 0, last_error: None, last_duration: None, failed_at: None }
    }

    /// Answers how many failures there were in a row until now.
    fn succeeded(&mut self) -> u32 {
        self.last_error = None;
        self.failed_at = None;
        mem::take(&mut self.failures)
    }
}
