//! SQLite: one file, one writing process, readers beside it.
//!
//! The file is in WAL mode with `synchronous=FULL`: a commit returns after the log was flushed, so it
//! survives a power cut and not only the death of the process. One connection writes, in batches; a few
//! others read, each from a snapshot, and never wait for the writer.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use camino::{Utf8Path, Utf8PathBuf};
use pilothouse_runtime::{Clock, Tasks};
use sqlx::SqliteConnection;

use crate::at_hand::AtHand;
use crate::committer::Committer;
use crate::wake::Wakes;
use crate::{Durability, Error};

mod backup;
#[path = "sql/engine.rs"]
mod engine;
mod error;
#[path = "sql/load.rs"]
mod load;
mod lock;
#[path = "sql/maintain.rs"]
mod maintain;
#[cfg(test)]
mod migration_fixture;
#[cfg(test)]
#[path = "sql/migration_tests.rs"]
mod migration_tests;
mod open;
#[cfg(test)]
mod query_plans;
#[path = "sql/read.rs"]
mod read;
#[path = "sql/script.rs"]
mod script;
#[path = "sql/write.rs"]
mod write;
mod writer;

// What the files in `sql/` are compiled over.
use backup::{backup, integrity};
use engine::SqlEngine;
#[cfg(test)]
use open::{MIGRATIONS, apply_migrations};
use script::Script;

type Database = sqlx::Sqlite;
type Connection = SqliteConnection;
/// How the open entries of a document are found. Left to itself, SQLite takes the key of the table for as good, and goes
/// through every entry of the container.
const OPEN_ENTRIES: &str = "JOIN entry e INDEXED BY entry_by_key ON e.container = wanted.column1 \
     AND e.partition = wanted.column2 AND e.id = wanted.column3 AND e.until IS NULL";
/// How the head of an index entry is found.
const HEAD_OF_ENTRY: &str =
    "JOIN head h ON h.container = e.container AND h.partition = e.partition AND h.id = e.id";
/// Begins a number of reads that are of one instant.
const SNAPSHOT: &str = "BEGIN";
/// The lock beside the file sees to it.
const SHARED: bool = false;
/// Several statements are one text.
const TOGETHER: bool = true;

/// A file, and the clock it goes by, having none of its own.
#[derive(Clone, Debug)]
struct Place {
    path: Utf8PathBuf,
    clock: Clock,
}

fn classify(place: &Place, action: &'static str, error: sqlx::Error) -> Error {
    error::classify(&place.path, action, error)
}

async fn now(place: &Place, _connection: &mut Connection) -> Result<i64, sqlx::Error> {
    Ok(place.clock.now().as_microsecond())
}

/// Opens for writing; creates the file if there is none.
pub(crate) async fn open(
    path: &Utf8Path,
    durability: Durability,
    clock: Clock,
    incarnation: u32,
    wakes: Arc<Wakes>,
    tasks: &Tasks,
) -> Result<SqlEngine, Error> {
    let place = Place { path: path.to_owned(), clock };
    let lock = lock::Lock::take(path)?;
    let connection = open::writer(path, durability).await?;
    let generation = Arc::new(AtomicI64::new(i64::MAX));
    let at_hand = AtHand::new();
    let writer = writer::Writer {
        place: place.clone(),
        lock,
        connection,
        incarnation,
        wakes,
        generation: generation.clone(),
        at_hand: at_hand.clone(),
        state: None,
    };
    let committer = Committer::start(tasks, writer);
    Ok(SqlEngine::new(place, open::readers(path, false), Some(committer), generation, Some(at_hand)))
}

/// Opens to look, also beside a process that writes.
pub(crate) async fn inspect(path: &Utf8Path, clock: Clock) -> Result<SqlEngine, Error> {
    open::inspect(path).await?;
    let place = Place { path: path.to_owned(), clock };
    let generation = Arc::new(AtomicI64::new(i64::MAX));
    Ok(SqlEngine::new(place, open::readers(path, true), None, generation, None))
}
