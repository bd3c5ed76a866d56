//! What a controller is at, for people.

use std::cmp::Reverse;
use std::fmt::Display;
use std::hash::Hash;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::queue::{Entry, Place, Queue};
use crate::readable;

/// How many keys are shown at most; the rest is only counted.
const SHOWN: usize = 100;

/// What a controller is at.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    /// Its name.
    pub name: String,
    /// Sums since it started.
    pub totals: Totals,
    /// How many passes run now.
    pub running: usize,
    /// How many keys are not at rest.
    pub active: usize,
    /// How many keys' last pass failed.
    pub failing: usize,
    /// Keys that are not at rest: those that failed most often first, then those running, then the others. At
    /// most a hundred; keys at rest are not kept.
    pub keys: Vec<KeyStatus>,
    /// The passes that finished last, newest first.
    pub recent: Vec<PassStatus>,
}

/// Sums since a controller started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// How often single keys were woken.
    pub wakes: u64,
    /// How many passes finished.
    pub passes: u64,
    /// How many of them failed.
    pub failures: u64,
    /// How many listings finished.
    pub listings: u64,
    /// How many keys the last good listing found.
    pub listed: usize,
    /// Why the last listing failed, if it did.
    pub listing_error: Option<String>,
}

/// What is known about one key that is not at rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyStatus {
    /// The key.
    pub key: String,
    /// Where it is.
    #[serde(flatten)]
    pub state: KeyState,
    /// How many passes failed in a row.
    pub failures: u32,
    /// Why the last pass failed, if it did.
    pub last_error: Option<String>,
    /// How long the last pass took, if one is remembered.
    #[serde(serialize_with = "readable::optional_duration")]
    pub last_duration: Option<Duration>,
}

/// Where a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum KeyState {
    /// Until a moment comes: a retry, or a second look.
    Waiting {
        /// How long still.
        #[serde(rename = "for", serialize_with = "readable::duration")]
        remaining: Duration,
    },
    /// Until there is a place to run.
    Ready,
    /// A pass is under way.
    Running {
        /// For how long.
        #[serde(rename = "for", serialize_with = "readable::duration")]
        elapsed: Duration,
        /// Whether it was woken meanwhile, so that another pass follows.
        woken: bool,
    },
}

/// One pass that finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PassStatus {
    /// What it was over.
    pub key: String,
    /// How long ago it finished.
    #[serde(serialize_with = "readable::duration")]
    pub ago: Duration,
    /// How long it took.
    #[serde(serialize_with = "readable::duration")]
    pub duration: Duration,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// The same, as the queue keeps it.
#[derive(Debug)]
pub(super) struct Finished<K> {
    pub(super) key: K,
    pub(super) at: Instant,
    pub(super) duration: Duration,
    pub(super) error: Option<String>,
}

impl<K: Clone + Eq + Hash + Display> Queue<K> {
    /// This does look at every key, but only when somebody looks at the page.
    pub(super) fn status(&self, name: &str, now: Instant) -> ControllerStatus {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(_, entry)| entry.importance());
        let mut keys: Vec<_> = entries
            .iter()
            .take(SHOWN)
            .map(|(key, entry)| (entry.importance(), entry.status(key.to_string(), now)))
            .collect();
        // Among equals by name, so that the page does not dance.
        keys.sort_by(|left, right| left.0.cmp(&right.0).then_with(|| left.1.key.cmp(&right.1.key)));
        ControllerStatus {
            name: name.to_owned(),
            totals: self.totals.clone(),
            running: self.running,
            active: entries.len(),
            failing: entries.iter().filter(|(_, entry)| entry.failures > 0).count(),
            keys: keys.into_iter().map(|(_, status)| status).collect(),
            recent: self.recent.iter().rev().map(|finished| finished.status(now)).collect(),
        }
    }
}

impl Entry {
    /// Lowest first.
    fn importance(&self) -> (Reverse<u32>, bool) {
        (Reverse(self.failures), !matches!(self.place, Place::Running { .. }))
    }

    fn status(&self, key: String, now: Instant) -> KeyStatus {
        let state = match self.place {
            Place::Waiting(until, _) => KeyState::Waiting { remaining: until.duration_since(now) },
            Place::Ready(..) => KeyState::Ready,
            Place::Running { since, woken } => {
                KeyState::Running { elapsed: now.duration_since(since), woken }
            }
        };
        KeyStatus {
            key,
            state,
            failures: self.failures,
            last_error: self.last_error.clone(),
            last_duration: self.last_duration,
        }
    }
}

impl<K: Display> Finished<K> {
    fn status(&self, now: Instant) -> PassStatus {
        PassStatus {
            key: self.key.to_string(),
            ago: now.duration_since(self.at),
            duration: self.duration,
            error: self.error.clone(),
        }
    }
}
