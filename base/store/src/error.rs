//! What can go wrong, by what a caller can do about it.

use std::error::Error as StdError;
use std::time::Duration;

use crate::{DocumentId, Etag, LeaseName, Revision};

/// The cause below an engine's failure.
pub(crate) type Cause = Box<dyn StdError + Send + Sync>;

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A precondition did not hold; nothing was written. Read again, decide again.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// The request can never succeed as it is; nothing was written.
    #[error("{what} is not valid: {problem}")]
    Invalid {
        /// The offending part, quoted.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A stored document does not have the form its reader expects.
    #[error("document `{id}` in `{container}` does not have the expected form at `{path}`")]
    Form {
        /// The document's container.
        container: String,
        /// The document.
        id: DocumentId,
        /// Where in it.
        path: String,
        /// What the reader said.
        #[source]
        source: serde_json::Error,
    },
    /// The history asked for was compacted. List again and follow the feed from there.
    #[error("revision {asked} is no longer kept, the oldest that can be read is {oldest}; list again")]
    TooOld {
        /// What was asked for.
        asked: Revision,
        /// What is still there.
        oldest: Revision,
    },
    /// A revision that has not happened here, as after a restored backup. List again.
    #[error("revision {asked} has not happened in this store, which is at {newest}; list again")]
    NotYet {
        /// What was asked for.
        asked: Revision,
        /// What is there.
        newest: Revision,
    },
    /// Somebody else has the lease.
    #[error("lease `{name}` is held by `{holder}` for another {}", humantime_like(*.remaining))]
    LeaseHeld {
        /// The lease.
        name: LeaseName,
        /// Who has it.
        holder: String,
        /// For how long at most, unless renewed.
        remaining: Duration,
    },
    /// The engine could not be reached or was busy; nothing was written. Try again.
    #[error("the store is not available: {problem}")]
    Unavailable {
        /// What was being done.
        problem: String,
        /// What the engine said.
        #[source]
        source: Cause,
    },
    /// The engine went away while it committed, and did not come back in time to tell. Read before
    /// trying again: the write may be there.
    #[error(
        "the store went away during a commit, and whether it was kept is not known; read before repeating it"
    )]
    Uncertain {
        /// What the engine said.
        #[source]
        source: Cause,
    },
    /// Another process writes this database.
    #[error("{database} is in use by {holder}; stop that process, or use another data directory")]
    InUse {
        /// The database.
        database: String,
        /// Who has it open.
        holder: String,
    },
    /// No room to write; nothing was written, what was stored stays readable.
    #[error("the disk that holds {database} is full; free some space, no restart is needed")]
    Full {
        /// The database.
        database: String,
        /// What the engine said.
        #[source]
        source: Cause,
    },
    /// The database cannot be opened for writing.
    #[error("{database} cannot be written; check the permissions of the file and its directory")]
    ReadOnly {
        /// The database.
        database: String,
        /// What the engine said.
        #[source]
        source: Cause,
    },
    /// The database is damaged. Nothing is overwritten.
    #[error(
        "{database} is damaged; nothing was changed. Run `pilothouse store check --store {database}` for the extent, \
         and restore a backup"
    )]
    Damaged {
        /// The database.
        database: String,
        /// What was seen.
        #[source]
        source: Cause,
    },
    /// The file or schema holds something else.
    #[error("{database} is not a Pilothouse store: {problem}")]
    Foreign {
        /// The database.
        database: String,
        /// What was found instead.
        problem: String,
    },
    /// The database was written by a newer Pilothouse.
    #[error(
        "{database} has schema version {found}, this program knows {known}; use the newer program that wrote it, \
         or restore a backup from before the upgrade"
    )]
    Newer {
        /// The database.
        database: String,
        /// Its schema version.
        found: i64,
        /// The newest this program knows.
        known: i64,
    },
    /// A newer program has changed indexes or secrets while this one was running.
    #[error("a newer program has changed the catalogue of {database}; restart this one")]
    Superseded {
        /// The database.
        database: String,
    },
    /// A secret could not be sealed or opened.
    #[error("a secret could not be {action}: {problem}")]
    Sealing {
        /// Sealed or opened.
        action: &'static str,
        /// Why, without any of it.
        problem: String,
    },
    /// Somebody retired the key while this process still sealed with it.
    #[error("the sealing key `{id}` was retired; load the key file again")]
    RetiredKey {
        /// The key's id.
        id: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The engine said something that none of the above describes.
    #[error("the store failed while it {action}")]
    Engine {
        /// What was being done.
        action: &'static str,
        /// What the engine said.
        #[source]
        source: Cause,
    },
}

/// Which precondition of a transaction did not hold. The transaction changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// An etag was given, the document does not exist.
    #[error("document `{id}` in `{container}` does not exist")]
    Missing {
        /// Its container.
        container: String,
        /// Its id.
        id: DocumentId,
    },
    /// The document should not exist, and does.
    #[error("document `{id}` in `{container}` exists already")]
    Exists {
        /// Its container.
        container: String,
        /// Its id.
        id: DocumentId,
        /// Its present etag.
        etag: Etag,
    },
    /// The document is not the one that was read.
    #[error("document `{id}` in `{container}` changed since it was read")]
    Changed {
        /// Its container.
        container: String,
        /// Its id.
        id: DocumentId,
        /// Its present etag.
        etag: Etag,
    },
    /// The lease that fences the write is no longer held with that token.
    #[error("lease `{name}` is no longer held with token {token}")]
    LeaseLost {
        /// The lease.
        name: LeaseName,
        /// The token of the write.
        token: u64,
    },
}

impl Error {
    /// Whether the same request may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Full { .. } | Self::LeaseHeld { .. } => true,
            Self::Conflict(_)
            | Self::Invalid { .. }
            | Self::Form { .. }
            | Self::TooOld { .. }
            | Self::NotYet { .. }
            | Self::Uncertain { .. }
            | Self::InUse { .. }
            | Self::ReadOnly { .. }
            | Self::Damaged { .. }
            | Self::Foreign { .. }
            | Self::Newer { .. }
            | Self::Superseded { .. }
            | Self::Sealing { .. }
            | Self::RetiredKey { .. }
            | Self::Closed
            | Self::Engine { .. } => false,
        }
    }

    /// For the other members of a batch that failed as one: the same news, without the cause, which goes to
    /// the first.
    pub(crate) fn again(&self) -> Self {
        let cause = || Cause::from(self.to_string());
        match self {
            Self::Unavailable { problem, .. } => {
                Self::Unavailable { problem: problem.clone(), source: cause() }
            }
            Self::Uncertain { .. } => Self::Uncertain { source: cause() },
            Self::Full { database, .. } => Self::Full { database: database.clone(), source: cause() },
            Self::ReadOnly { database, .. } => Self::ReadOnly { database: database.clone(), source: cause() },
            Self::Damaged { database, .. } => Self::Damaged { database: database.clone(), source: cause() },
            Self::Superseded { database } => Self::Superseded { database: database.clone() },
            Self::Closed => Self::Closed,
            _ => Self::Engine { action: "committed a batch", source: cause() },
        }
    }
}

fn humantime_like(remaining: Duration) -> String {
    format!("{:.1} s", remaining.as_secs_f64())
}
