//! Following what happens.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Changed, Scope, Version};
use crate::store::Inner;
use crate::wake::{Topic, Waiter};
use crate::{Cursor, Document, DocumentId, Error, Partition, Revision};

/// A reader of changes to one partition, or to one container across all partitions.
///
/// Changes come in the order of their revisions, each once; those of one transaction come together.
#[derive(Debug)]
pub struct Feed {
    inner: Arc<Inner>,
    scope: Scope,
    after: Revision,
    waiter: Waiter,
}

/// Some changes, and how far they reach.
#[derive(Clone, Debug)]
pub struct Batch {
    /// In order; whole transactions, as far as they lie within what is followed.
    pub changes: Vec<Change>,
    /// Everything up to here has been seen. It may be later than the last change.
    pub through: Revision,
}

/// What happened to one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The transaction.
    pub revision: Revision,
    /// The document's container.
    pub container: Arc<str>,
    /// The document's partition.
    pub partition: Partition,
    /// The document's id.
    pub id: DocumentId,
    /// The document before, unless it was made by this change.
    pub before: Option<Document>,
    /// The document after, unless it was deleted by this change.
    pub after: Option<Document>,
    /// Who did it.
    pub cause: Cause,
}

/// Who changed a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A transaction.
    Transaction,
    /// Its time had come.
    Expiry,
}

/// Changes read at a time.
const CHUNK: usize = 512;
/// How often a feed on which nothing happens moves up with the store, so that compaction does not overtake
/// it. Costs no reading.
const MOVE_UP: Duration = Duration::from_secs(15);

impl Feed {
    pub(crate) fn new(inner: Arc<Inner>, scope: Scope, after: Revision) -> Self {
        let waiter = inner.wakes.waiter(Topic::Scope(scope.clone()));
        Self { inner, scope, after, waiter }
    }

    /// The next changes; waits until there are any.
    ///
    /// May be dropped while it waits: nothing is lost, the next call starts at the same place.
    ///
    /// # Errors
    ///
    /// [`Error::TooOld`] if the history from here on was compacted, [`Error::NotYet`] if it never happened: list
    /// again. [`Error::Unavailable`]: call again.
    pub async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            let batch = self.ready().await?;
            if !batch.changes.is_empty() {
                return Ok(batch);
            }
            loop {
                let quiet = tokio::time::timeout(MOVE_UP, self.waiter.woken()).await.is_err();
                if !quiet {
                    break;
                }
                if let Some(through) = self.waiter.quiet_through() {
                    self.after = self.after.max(through);
                }
            }
        }
    }

    /// The changes there are now, perhaps none.
    pub async fn ready(&mut self) -> Result<Batch, Error> {
        self.waiter.arm();
        let read = self.inner.engine.changes(self.scope.clone(), self.after, CHUNK).await?;
        let newest = read.state.revision;
        let (found, _) = read.of(Some(self.after))?;
        let through = match found.last() {
            Some(last) if found.len() >= CHUNK => last.revision,
            _ => newest,
        };
        let changes = found.into_iter().map(|changed| self.open(changed)).collect::<Result<_, _>>()?;
        self.after = through;
        Ok(Batch { changes, through })
    }

    /// Where this reader stands: everything up to here has been handed out.
    pub fn revision(&self) -> Revision {
        self.after
    }

    /// Where this reader stands, to be kept.
    pub fn cursor(&self) -> Cursor {
        Cursor::new(self.after)
    }

    fn open(&self, changed: Changed) -> Result<Change, Error> {
        let open =
            |version: Option<Version>| version.map(|version| self.inner.open_version(version)).transpose();
        Ok(Change {
            revision: changed.revision,
            container: changed.key.container,
            partition: changed.key.partition,
            id: changed.key.id,
            before: open(changed.before)?,
            after: open(changed.after)?,
            cause: if changed.expired { Cause::Expiry } else { Cause::Transaction },
        })
    }
}
