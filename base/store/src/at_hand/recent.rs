//! The newest changes at hand: a feed that follows closely does not ask the database.
//!
//! Only for an engine whose every writer is in this process, and filled by that writer, after a change is durable and before
//! anybody is woken for it. What a feed is told from here is what it would have been told by the database. Bounded by number
//! and by size; a feed that is further behind reads the rows.
//!
//! Where the store stands is known here too, but between commits only ([`Recent::committing`]): while one is under way, a
//! reader of the database may already have seen what nobody here has been told of.

use std::collections::{HashMap, VecDeque};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::Revision;
use crate::engine::{Changed, Read, Scope, State, Version};
use crate::plan::Plan;
use crate::transaction::Key;

/// As many changes at most, and so many bytes of documents.
const LONGEST: usize = 1024;
const LARGEST: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Recent(RwLock<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// In order; whole transactions.
    changes: VecDeque<Changed>,
    bytes: usize,
    /// Every change after this revision is here. Some before it may be.
    floor: Revision,
    /// As of the last change. None: nothing is known.
    state: Option<State>,
    is_committing: bool,
}

impl Recent {
    /// Something is about to be committed.
    pub(crate) fn committing(&self) {
        self.write().is_committing = true;
    }

    /// Nothing of what is here may be told any more, until the next commit.
    pub(crate) fn forget(&self) {
        *self.write() = Inner::default();
    }

    /// A batch is durable. `former` finds a document as it was before the batch.
    pub(crate) fn committed(&self, before: State, plan: &Plan, former: impl Fn(&Key) -> Option<Version>) {
        let mut guard = self.write();
        let recent = &mut *guard;
        if recent.state.is_none_or(|state| state.revision != before.revision) {
            *recent = Inner { floor: before.revision, ..Inner::default() };
        }
        // A batch may change a document more than once.
        let mut meanwhile: HashMap<&Key, Option<Version>> = HashMap::new();
        for version in &plan.versions {
            let after = version.document();
            let before = match (meanwhile.insert(&version.key, after.clone()), version.previous) {
                (Some(before), _) => Some(before),
                // Nothing was there, or a tombstone.
                (None, None | Some(..0)) => Some(None),
                (None, Some(_)) => former(&version.key).map(Some),
            };
            match before {
                Some(before) => recent.push(Changed {
                    key: version.key.clone(),
                    revision: version.revision,
                    expired: version.expired,
                    before,
                    after,
                }),
                // What it was before is in the database only. Whoever has not read it yet does so there.
                None => recent.start_over(version.revision),
            }
        }
        recent.state = Some(plan.state);
        recent.is_committing = false;
    }

    /// What a feed at `after` is to be told, if all of it is here.
    pub(crate) fn changes(&self, scope: &Scope, after: Revision, limit: usize) -> Option<Read<Vec<Changed>>> {
        let recent = self.read();
        let state = recent.state.filter(|state| (recent.floor..=state.revision).contains(&after))?;
        let start = recent.changes.partition_point(|change| change.revision <= after);
        let mut found: Vec<Changed> = Vec::new();
        for change in recent.changes.iter().skip(start).filter(|change| scope.holds(&change.key)) {
            if found.len() >= limit && found.last().is_some_and(|last| last.revision != change.revision) {
                break;
            }
            found.push(change.clone());
        }
        Some(Read { state, found })
    }

    /// Where the store stands, unless that is just being changed.
    pub(crate) fn state(&self) -> Option<State> {
        let recent = self.read();
        recent.state.filter(|_| !recent.is_committing)
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        // Whoever panics in here leaves it as it was, or forgotten.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn push(&mut self, change: Changed) {
        self.bytes += size(&change);
        self.changes.push_back(change);
        while self.changes.len() > LONGEST || self.bytes > LARGEST {
            let Some(oldest) = self.changes.pop_front() else { return };
            self.bytes -= size(&oldest);
            // What is left of its transaction is told to nobody any more.
            self.floor = oldest.revision;
        }
    }

    fn start_over(&mut self, floor: Revision) {
        self.changes.clear();
        (self.bytes, self.floor) = (0, floor);
    }
}

impl Scope {
    fn holds(&self, key: &Key) -> bool {
        match self {
            Self::Partition(partition) => key.partition == *partition,
            Self::Container(container) => key.container == *container,
        }
    }
}

fn size(change: &Changed) -> usize {
    let body = |version: &Option<Version>| version.as_ref().map_or(0, |version| version.body.len());
    size_of::<Changed>() + change.key.id.as_str().len() + body(&change.before) + body(&change.after)
}

#[cfg(test)]
mod tests;
