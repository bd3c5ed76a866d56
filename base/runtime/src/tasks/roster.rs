//! Who is inside: the bookkeeping behind [`Tasks`](super::Tasks).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::OnExit;
use crate::readable;
use crate::shutdown::Ending;

/// Of how many names a failure is remembered after the last task of that name has left. Names are few when
/// chosen well; this keeps the memory bounded when they are not.
const REMEMBERED_FAILURES: usize = 64;

/// What is known about the tasks of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    /// Whose tasks they are.
    pub owner: String,
    /// Their common name.
    pub name: String,
    /// What happens when one ends; of the last one spawned, should they differ.
    pub on_exit: OnExit,
    /// How many run now.
    pub running: usize,
    /// How long the oldest of them has been running.
    #[serde(serialize_with = "readable::optional_duration")]
    pub oldest: Option<Duration>,
    /// How many have failed or panicked.
    pub failed: u64,
    /// How the last failure read.
    pub last_failure: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Roster {
    state: Arc<Mutex<State>>,
    running: Arc<watch::Sender<usize>>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    failures: u64,
    /// By order of arrival, so that the first of a name is its oldest.
    tasks: BTreeMap<u64, Task>,
    names: HashMap<Arc<str>, Name>,
}

#[derive(Debug)]
struct Task {
    name: Arc<str>,
    on_exit: OnExit,
    since: Instant,
    abort: AbortHandle,
}

#[derive(Debug)]
struct Name {
    on_exit: OnExit,
    running: usize,
    failed: u64,
    last_failure: Option<String>,
    /// The number of its last failure among all of them: which one to forget first.
    failed_at: u64,
}

/// Signs its task out when dropped, however that comes about.
#[derive(Debug)]
pub(super) struct Leave {
    id: u64,
    state: Arc<Mutex<State>>,
    running: Arc<watch::Sender<usize>>,
}

// === impl Roster ===

impl Roster {
    /// Signs a task in and starts it. Under one lock, since the task may be over before `start` returns.
    pub(super) fn enter(&self, name: Arc<str>, on_exit: OnExit, start: impl FnOnce(Leave) -> AbortHandle) {
        let mut state = lock(&self.state);
        let id = state.next;
        state.next += 1;
        let leave = Leave { id, state: self.state.clone(), running: self.running.clone() };
        let abort = start(leave);
        state.tasks.insert(id, Task { name: name.clone(), on_exit, since: Instant::now(), abort });
        let entry = state.names.entry(name).or_insert(Name {
            on_exit,
            running: 0,
            failed: 0,
            last_failure: None,
            failed_at: 0,
        });
        entry.on_exit = on_exit;
        entry.running += 1;
        self.running.send_modify(|running| *running += 1);
    }

    /// Notes how a task ended, before it signs out.
    pub(super) fn ended(&self, name: &str, ending: &Ending) {
        let failure = match ending {
            Ending::Returned => return,
            Ending::Failed(_) | Ending::Panicked(_) => ending.to_string(),
        };
        let mut state = lock(&self.state);
        state.failures += 1;
        let number = state.failures;
        if let Some(entry) = state.names.get_mut(name) {
            entry.failed += 1;
            entry.last_failure = Some(failure);
            entry.failed_at = number;
        }
    }

    /// Returns once nobody is inside.
    pub(super) async fn empty(&self) {
        // Cannot fail: `self` keeps the sender alive.
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    pub(super) fn abort_expendable(&self) {
        for task in lock(&self.state).tasks.values() {
            if task.on_exit == OnExit::Expendable {
                task.abort.abort();
            }
        }
    }

    /// Aborts whoever is inside, and tells who that was.
    pub(super) fn abort_all(&self) -> BTreeMap<String, usize> {
        let mut aborted = BTreeMap::new();
        for task in lock(&self.state).tasks.values() {
            task.abort.abort();
            *aborted.entry(task.name.to_string()).or_default() += 1;
        }
        aborted
    }

    pub(super) fn status(&self, owner: &str, now: Instant) -> Vec<TaskStatus> {
        let state = lock(&self.state);
        let mut oldest = HashMap::<&str, Instant>::new();
        for task in state.tasks.values() {
            oldest.entry(&task.name).or_insert(task.since);
        }
        let mut rows: Vec<_> = state
            .names
            .iter()
            .map(|(name, entry)| TaskStatus {
                owner: owner.to_owned(),
                name: name.to_string(),
                on_exit: entry.on_exit,
                running: entry.running,
                oldest: oldest.get(&**name).map(|since| now.duration_since(*since)),
                failed: entry.failed,
                last_failure: entry.last_failure.clone(),
            })
            .collect();
        rows.sort_by(|left, right| left.name.cmp(&right.name));
        rows
    }
}

// === impl State ===

impl State {
    fn leave(&mut self, id: u64) {
        let Some(task) = self.tasks.remove(&id) else { return };
        let Some(entry) = self.names.get_mut(&task.name) else { return };
        entry.running -= 1;
        if entry.running == 0 {
            if entry.failed == 0 {
                self.names.remove(&task.name);
            } else {
                self.forget_old_failures();
            }
        }
    }

    fn forget_old_failures(&mut self) {
        let idle = || self.names.iter().filter(|(_, entry)| entry.running == 0);
        if idle().count() <= REMEMBERED_FAILURES {
            return;
        }
        let oldest = idle().min_by_key(|(_, entry)| entry.failed_at).map(|(name, _)| name.clone());
        if let Some(name) = oldest {
            self.names.remove(&name);
        }
    }
}

// === impl Leave ===

impl Drop for Leave {
    fn drop(&mut self) {
        lock(&self.state).leave(self.id);
        self.running.send_modify(|running| *running -= 1);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Nothing in here panics half-way through a change, except a spawn outside a runtime, which has changed
    // no more than a counter by then.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
