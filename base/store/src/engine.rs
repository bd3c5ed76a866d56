//! What the three engines have in common, and all that the rest of the crate knows of them.
//!
//! An engine keeps *versions*: one row for every change of a document, never altered, with a pointer to the
//! version before. The present version of each document is found through its *head*, the versions of the past
//! through the key, and the feed is the versions in the order of their *position*. So a document is written
//! once, and reads at a revision, before-images and the feed are three ways to look at the same rows.
//!
//! Which transaction may do what is decided in one place for all engines: [`crate::plan`].

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::container::{Entry, Specification};
use crate::lease::{Fence, LeaseCommand};
use crate::query::List;
use crate::transaction::{Key, Precondition};
use crate::{Committed, DocumentId, Error, Etag, Partition, Revision};

/// A durable (or, in memory, a strict) keeper of versions.
///
/// Promises: [`Engine::submit`] returns after the change is durable and visible to every later read.
/// Commands take effect one after the other; revisions and positions increase in that order, and no reader
/// sees a later one without all earlier ones. Every read is of one instant.
pub(crate) trait Engine: Send + Sync + fmt::Debug + 'static {
    /// Carries out one command.
    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Reply, Error>>;
    /// One document, as it is.
    fn present(&self, key: Key) -> BoxFuture<'_, Result<Option<Version>, Error>>;
    /// One document, as it was.
    fn past(&self, key: Key, at: Revision) -> BoxFuture<'_, Result<Read<Option<Version>>, Error>>;
    /// A page of documents.
    fn list(&self, list: List) -> BoxFuture<'_, Result<Read<Vec<Version>>, Error>>;
    /// The ids of all documents there are, of those a list selects, in its order.
    fn ids(&self, list: List) -> BoxFuture<'_, Result<Read<Vec<DocumentId>>, Error>>;
    /// Changes after a revision, whole revisions only, about `limit` of them.
    fn changes(
        &self,
        scope: Scope,
        after: Revision,
        limit: usize,
    ) -> BoxFuture<'_, Result<Read<Vec<Changed>>, Error>>;
    /// What is past its time, and when the next will be.
    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Due, Error>>;
    /// Versions in the order of their positions, for checks and for sealing anew.
    fn scan(&self, after: Position, limit: usize) -> BoxFuture<'_, Result<Vec<Scanned>, Error>>;
    /// Heads in the order of their keys, for checks.
    fn heads(&self, behind: Option<Key>, limit: usize) -> BoxFuture<'_, Result<Vec<(Key, Head)>, Error>>;
    /// The store's own row.
    fn state(&self) -> BoxFuture<'_, Result<State, Error>>;
    /// The containers as they were last declared, and whether their indexes are complete.
    fn catalog(&self) -> BoxFuture<'_, Result<Vec<(Specification, bool)>, Error>>;
    /// Whether other processes may write to it at the same time.
    fn is_shared(&self) -> bool;
    /// From now on, commits are refused if somebody declares a container anew.
    fn adopt(&self, generation: i64);
    /// Whether the engine's own structures are sound; a list of what is not.
    fn integrity(&self) -> BoxFuture<'_, Result<Vec<String>, Error>>;
    /// Writes a consistent copy of everything to a file, while others go on.
    fn backup(&self, file: camino::Utf8PathBuf) -> BoxFuture<'_, Result<(), Error>>;
    /// Finishes what was submitted and lets go of the database.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The place of a version in the order of all changes.
pub(crate) type Position = i64;

/// Something that changes a store.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Commit(Prepared),
    Lease(LeaseCommand),
    Maintain(Maintenance),
}

/// Changes that no transaction makes. They run alone, between batches.
#[derive(Clone, Debug)]
pub(crate) enum Maintenance {
    /// Remembers the present revision and time; answers the newest revision that was remembered at or before
    /// `horizon` (microseconds before now).
    Mark { horizon: i64 },
    /// Forgets the history up to a revision. Immediate for readers, the rows go by and by.
    Compact { through: Revision },
    /// Deletes up to `limit` rows that a compaction has made unreadable.
    Sweep { limit: usize },
    /// Declares a container: it has no index entries, and cannot be read in the past, until then.
    Declare { specification: Arc<Specification> },
    /// Says that a declaration has been carried out: all entries are there, all secrets are sealed.
    Declared { specification: Arc<Specification> },
    /// Adds entries of present documents; used after a declaration has changed the indexes.
    Reindex { rows: Vec<(Key, Revision, Vec<Entry>)> },
    /// Replaces bodies in place by the same documents sealed with another key.
    Reseal { rows: Vec<(Position, Arc<str>, Option<String>)> },
    /// From now on, nothing may be written that is sealed with this key.
    RetireKey { id: String },
}

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Committed(Committed),
    Lease(LeaseReply),
    /// For a mark: the revision asked for.
    Marked(Option<Revision>),
    /// For a sweep: whether there is more.
    Swept {
        more: bool,
    },
    Done,
}

#[derive(Clone, Debug)]
pub(crate) struct LeaseReply {
    pub(crate) holder: String,
    pub(crate) token: u64,
}

/// A transaction, checked, sealed and indexed: nothing in it needs a catalogue or a key any more.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) operations: Vec<PreparedOperation>,
    pub(crate) fences: Vec<Fence>,
}

#[derive(Clone, Debug)]
pub(crate) struct PreparedOperation {
    pub(crate) key: Key,
    pub(crate) indexed: bool,
    pub(crate) guard: Guard,
    pub(crate) action: PreparedAction,
}

#[derive(Clone, Debug)]
pub(crate) enum Guard {
    Precondition(Precondition),
    /// It exists and its time has come.
    Expired,
}

#[derive(Clone, Debug)]
pub(crate) enum PreparedAction {
    Put(Content),
    Delete,
    Check,
}

#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) body: Arc<str>,
    pub(crate) sealing_key: Option<String>,
    /// In microseconds.
    pub(crate) time_to_live: Option<i64>,
    pub(crate) entries: Vec<Entry>,
}

/// The present version of a document, or its tombstone until that is compacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) revision: Revision,
    pub(crate) position: Position,
    /// None: deleted.
    pub(crate) etag: Option<Etag>,
    pub(crate) expires_at: Option<i64>,
    /// What the indexes have, and since when.
    pub(crate) entries: Vec<(Entry, Revision)>,
}

/// A document's version without its key.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) key: Key,
    pub(crate) revision: Revision,
    pub(crate) etag: Etag,
    pub(crate) body: Arc<str>,
    pub(crate) expires_at: Option<i64>,
}

/// One entry of the feed.
#[derive(Clone, Debug)]
pub(crate) struct Changed {
    pub(crate) key: Key,
    pub(crate) revision: Revision,
    pub(crate) expired: bool,
    pub(crate) before: Option<Version>,
    pub(crate) after: Option<Version>,
}

/// A row as a check sees it.
#[derive(Clone, Debug)]
pub(crate) struct Scanned {
    pub(crate) position: Position,
    pub(crate) key: Key,
    pub(crate) revision: Revision,
    pub(crate) previous: Option<Position>,
    pub(crate) etag: Option<Etag>,
    pub(crate) body: Option<Arc<str>>,
    pub(crate) sealing_key: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Due {
    pub(crate) keys: Vec<Key>,
    /// Microseconds from now to the next expiry, if there is one.
    pub(crate) next: Option<i64>,
}

/// What a feed follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    Partition(Partition),
    Container(Arc<str>),
}

/// The store's own row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The newest commit.
    pub(crate) revision: Revision,
    /// The newest version.
    pub(crate) position: Position,
    /// The oldest revision that can be read, and from which the feed can be followed.
    pub(crate) compacted: Revision,
    /// Grows with every declaration.
    pub(crate) generation: i64,
}

/// An answer together with the state it is of.
#[derive(Clone, Debug)]
pub(crate) struct Read<T> {
    pub(crate) state: State,
    pub(crate) found: T,
}

impl<T> Read<T> {
    /// The answer, unless it was asked of a time that is not kept.
    pub(crate) fn of(self, at: Option<Revision>) -> Result<(T, Revision), Error> {
        let asked = at.unwrap_or(self.state.revision);
        if asked < self.state.compacted {
            return Err(Error::TooOld { asked, oldest: self.state.compacted });
        }
        if asked > self.state.revision {
            return Err(Error::NotYet { asked, newest: self.state.revision });
        }
        Ok((self.found, asked))
    }
}
