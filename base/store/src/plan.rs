//! What commands do to a store: a pure function from commands and the rows they touch to answers and new rows.
//!
//! All engines run it, so that a precondition, a fence or an expiry means the same in each of them. An engine
//! loads the heads and leases that the commands name, calls [`plan`], and writes what it says in one
//! transaction of its own. Commands of one batch see the effects of those before them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::container::Entry;
use crate::engine::{
    Command, Content, Guard, Head, LeaseReply, Position, Prepared, PreparedAction, PreparedOperation, Reply,
    State, Version,
};
use crate::lease::{Fence, LeaseCommand, LeaseRow};
use crate::transaction::{Key, Precondition};
use crate::{Committed, Conflict, Error, Etag, LeaseName, Outcome, Revision};

/// The rows a batch touches, and the instant it happens at.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) state: State,
    /// Microseconds since the epoch, by the database's clock.
    pub(crate) now: i64,
    /// Which opening of the store writes; part of every etag.
    pub(crate) incarnation: u32,
    pub(crate) heads: HashMap<Key, Head>,
    pub(crate) leases: HashMap<LeaseName, LeaseRow>,
    pub(crate) retired_keys: HashSet<String>,
}

/// Which rows a batch needs to know.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) keys: BTreeSet<Key>,
    /// Those of the keys that have, or had, index entries.
    pub(crate) indexed: BTreeSet<Key>,
    pub(crate) leases: BTreeSet<LeaseName>,
    pub(crate) seals: bool,
}

/// What to write, and what to answer.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) replies: Vec<Result<Reply, Error>>,
    pub(crate) state: State,
    pub(crate) versions: Vec<NewVersion>,
    pub(crate) heads: BTreeMap<Key, Head>,
    pub(crate) opened: BTreeMap<OpenEntry, Option<Revision>>,
    pub(crate) closed: Vec<(OpenEntry, Revision)>,
    pub(crate) leases: BTreeMap<LeaseName, LeaseRow>,
}

#[derive(Clone, Debug)]
pub(crate) struct NewVersion {
    pub(crate) position: Position,
    pub(crate) key: Key,
    pub(crate) revision: Revision,
    /// The document's version before; negative if that is a tombstone.
    pub(crate) previous: Option<Position>,
    pub(crate) expired: bool,
    /// None: a tombstone.
    pub(crate) etag: Option<Etag>,
    pub(crate) body: Option<Arc<str>>,
    pub(crate) sealing_key: Option<String>,
    pub(crate) expires_at: Option<i64>,
}

impl NewVersion {
    /// As a reader sees it, unless it is a tombstone.
    pub(crate) fn document(&self) -> Option<Version> {
        let (etag, body) = (self.etag.clone()?, self.body.clone()?);
        Some(Version {
            key: self.key.clone(),
            revision: self.revision,
            etag,
            body,
            expires_at: self.expires_at,
        })
    }
}

/// An index entry, and the revision it exists since.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OpenEntry {
    pub(crate) key: Key,
    pub(crate) entry: Entry,
    pub(crate) since: Revision,
}

/// Plans a batch. [`Command::Maintain`] is not for it: engines carry those out by themselves.
pub(crate) fn plan<'a>(commands: impl IntoIterator<Item = &'a Command>, world: World) -> Plan {
    let state = world.state;
    let mut planner = Planner {
        world,
        plan: Plan {
            replies: Vec::new(),
            state,
            versions: Vec::new(),
            heads: BTreeMap::new(),
            opened: BTreeMap::new(),
            closed: Vec::new(),
            leases: BTreeMap::new(),
        },
    };
    for command in commands {
        let reply = match command {
            Command::Commit(prepared) => planner.commit(prepared).map(Reply::Committed).map_err(Error::from),
            Command::Lease(command) => planner.lease(command),
            Command::Maintain(_) => Ok(Reply::Done),
        };
        planner.plan.replies.push(reply);
    }
    planner.plan
}

impl Touched {
    pub(crate) fn by<'a>(commands: impl IntoIterator<Item = &'a Command>) -> Self {
        let mut touched = Self::default();
        for command in commands {
            match command {
                Command::Commit(prepared) => {
                    for operation in &prepared.operations {
                        touched.keys.insert(operation.key.clone());
                        if operation.indexed {
                            touched.indexed.insert(operation.key.clone());
                        }
                        touched.seals |= matches!(
                            &operation.action,
                            PreparedAction::Put(Content { sealing_key: Some(_), .. })
                        );
                    }
                    touched.leases.extend(prepared.fences.iter().map(|fence| fence.name.clone()));
                }
                Command::Lease(command) => {
                    touched.leases.insert(command.name().clone());
                }
                Command::Maintain(_) => {}
            }
        }
        touched
    }
}

struct Planner {
    world: World,
    plan: Plan,
}

/// Why a transaction is refused.
enum Refusal {
    Conflict(Conflict),
    RetiredKey(String),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Conflict(conflict) => Self::Conflict(conflict),
            Refusal::RetiredKey(id) => Self::RetiredKey { id },
        }
    }
}

impl Planner {
    fn commit(&mut self, prepared: &Prepared) -> Result<Committed, Refusal> {
        for fence in &prepared.fences {
            self.held(fence).map_err(Refusal::Conflict)?;
        }
        for operation in &prepared.operations {
            self.allowed(operation)?;
        }
        let revision = self.plan.state.revision.next();
        let outcomes: Vec<_> =
            prepared.operations.iter().map(|operation| self.carry_out(operation, revision)).collect();
        // A transaction that changed nothing did not happen: it has no revision, and nobody is woken.
        if outcomes.iter().any(|outcome| *outcome != Outcome::Unchanged) {
            self.plan.state.revision = revision;
        }
        Ok(Committed { revision: self.plan.state.revision, outcomes })
    }

    fn allowed(&self, operation: &PreparedOperation) -> Result<(), Refusal> {
        let container = || operation.key.container.to_string();
        let id = || operation.key.id.clone();
        let etag = self.world.heads.get(&operation.key).and_then(|head| head.etag.as_ref());
        if let PreparedAction::Put(Content { sealing_key: Some(key), .. }) = &operation.action
            && self.world.retired_keys.contains(key)
        {
            return Err(Refusal::RetiredKey(key.clone()));
        }
        let conflict = match (&operation.guard, etag) {
            (Guard::Expired | Guard::Precondition(Precondition::Any), _)
            | (Guard::Precondition(Precondition::Absent), None) => return Ok(()),
            (Guard::Precondition(Precondition::Etag(expected)), Some(etag)) if expected == etag => {
                return Ok(());
            }
            (Guard::Precondition(Precondition::Absent), Some(etag)) => {
                Conflict::Exists { container: container(), id: id(), etag: etag.clone() }
            }
            (Guard::Precondition(Precondition::Etag(_)), Some(etag)) => {
                Conflict::Changed { container: container(), id: id(), etag: etag.clone() }
            }
            (Guard::Precondition(Precondition::Etag(_)), None) => {
                Conflict::Missing { container: container(), id: id() }
            }
        };
        Err(Refusal::Conflict(conflict))
    }

    fn carry_out(&mut self, operation: &PreparedOperation, revision: Revision) -> Outcome {
        let key = &operation.key;
        let former = self.world.heads.get(key).cloned();
        let exists = former.as_ref().is_some_and(|head| head.etag.is_some());
        match &operation.action {
            PreparedAction::Check => Outcome::Unchanged,
            PreparedAction::Put(content) => {
                let etag = Etag::new(revision, self.world.incarnation);
                let expires_at =
                    content.time_to_live.map(|microseconds| self.world.now.saturating_add(microseconds));
                self.write(key, revision, former, Some((etag.clone(), content, expires_at)), false);
                Outcome::Written(etag)
            }
            PreparedAction::Delete => {
                let expired = matches!(operation.guard, Guard::Expired);
                let due = former
                    .as_ref()
                    .and_then(|head| head.expires_at)
                    .is_some_and(|expires_at| expires_at <= self.world.now);
                if !exists || (expired && !due) {
                    return Outcome::Unchanged;
                }
                self.write(key, revision, former, None, expired);
                Outcome::Deleted
            }
        }
    }

    fn write(
        &mut self,
        key: &Key,
        revision: Revision,
        former: Option<Head>,
        content: Option<(Etag, &Content, Option<i64>)>,
        expired: bool,
    ) {
        self.plan.state.position += 1;
        let position = self.plan.state.position;
        // Told apart by sign, because a tombstone goes earlier than a version that was replaced.
        let previous =
            former.as_ref().map(|head| if head.etag.is_some() { head.position } else { -head.position });
        let wanted = content.as_ref().map_or(&[][..], |(_, content, _)| &content.entries);
        let entries = self.index(key, revision, former.map_or_else(Vec::new, |head| head.entries), wanted);
        let (etag, body, sealing_key, expires_at) = match content {
            Some((etag, content, expires_at)) => {
                (Some(etag), Some(content.body.clone()), content.sealing_key.clone(), expires_at)
            }
            None => (None, None, None, None),
        };
        let head = Head { revision, position, etag: etag.clone(), expires_at, entries };
        self.world.heads.insert(key.clone(), head.clone());
        self.plan.heads.insert(key.clone(), head);
        self.plan.versions.push(NewVersion {
            position,
            key: key.clone(),
            revision,
            previous,
            expired,
            etag,
            body,
            sealing_key,
            expires_at,
        });
    }

    /// An entry lives from the revision that made it to the one that took it away, so that an index can be
    /// read in the past as well. What stays the same is not touched.
    fn index(
        &mut self,
        key: &Key,
        revision: Revision,
        former: Vec<(Entry, Revision)>,
        wanted: &[Entry],
    ) -> Vec<(Entry, Revision)> {
        let (mut kept, gone): (Vec<_>, Vec<_>) =
            former.into_iter().partition(|(entry, _)| wanted.contains(entry));
        for (entry, since) in gone {
            let open = OpenEntry { key: key.clone(), entry, since };
            match self.plan.opened.get_mut(&open) {
                Some(until) => *until = Some(revision),
                None => self.plan.closed.push((open, revision)),
            }
        }
        for entry in wanted {
            if !kept.iter().any(|(have, _)| have == entry) {
                let open = OpenEntry { key: key.clone(), entry: entry.clone(), since: revision };
                self.plan.opened.insert(open, None);
                kept.push((entry.clone(), revision));
            }
        }
        kept
    }

    fn held(&self, fence: &Fence) -> Result<&LeaseRow, Conflict> {
        self.world
            .leases
            .get(&fence.name)
            .filter(|row| row.token == fence.token && row.expires_at > self.world.now)
            .ok_or_else(|| Conflict::LeaseLost { name: fence.name.clone(), token: fence.token })
    }

    fn lease(&mut self, command: &LeaseCommand) -> Result<Reply, Error> {
        let now = self.world.now;
        let row = match command {
            LeaseCommand::Acquire { name, holder, time_to_live } => {
                let row = self.world.leases.get(name);
                if let Some(row) = row.filter(|row| row.expires_at > now && row.holder != *holder) {
                    return Err(Error::LeaseHeld {
                        name: name.clone(),
                        holder: row.holder.clone(),
                        remaining: Duration::from_micros(row.expires_at.abs_diff(now)),
                    });
                }
                // Also a holder that asks again gets a new token: what it asked for before it crashed, or in
                // another process of the same name, must not go on writing beside it.
                let token = row.map_or(1, |row| row.token + 1);
                LeaseRow { holder: holder.clone(), token, expires_at: end(now, *time_to_live) }
            }
            LeaseCommand::Renew { fence, time_to_live } => {
                LeaseRow { expires_at: end(now, *time_to_live), ..self.held(fence)?.clone() }
            }
            LeaseCommand::Release { fence } => LeaseRow { expires_at: now, ..self.held(fence)?.clone() },
        };
        self.world.leases.insert(command.name().clone(), row.clone());
        self.plan.leases.insert(command.name().clone(), row.clone());
        Ok(Reply::Lease(LeaseReply { holder: row.holder, token: row.token }))
    }
}

fn end(now: i64, time_to_live: Duration) -> i64 {
    now.saturating_add(i64::try_from(time_to_live.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
