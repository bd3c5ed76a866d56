//! PostgreSQL: one schema, any number of processes.
//!
//! Every batch first locks the store's one row and keeps it until its commit is visible. Revisions are
//! therefore handed out in commit order across all processes, and a reader that has seen a revision has seen
//! all before it: there is no transaction that commits late with an earlier one. The price is that batches
//! queue for that row; each holds many transactions, so it is paid once for all of them. Other processes'
//! readers are woken by `NOTIFY`, which PostgreSQL delivers in commit order, and a slow poll repairs what a
//! lost connection has missed.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use camino::Utf8Path;
use pilothouse_runtime::Tasks;
use sqlx::PgConnection;

use crate::Error;
use crate::committer::Committer;
use crate::wake::Wakes;

mod address;
#[path = "sql/engine.rs"]
mod engine;
mod error;
mod listen;
#[path = "sql/load.rs"]
mod load;
#[path = "sql/maintain.rs"]
mod maintain;
#[cfg(test)]
mod migration_fixture;
#[cfg(test)]
#[path = "sql/migration_tests.rs"]
mod migration_tests;
mod open;
#[path = "sql/read.rs"]
mod read;
#[path = "sql/script.rs"]
mod script;
#[path = "sql/write.rs"]
mod write;
mod writer;

pub(crate) use address::Address;
// What the files in `sql/` are compiled over.
use address::Address as Place;
use engine::SqlEngine;
use error::classify;
#[cfg(test)]
use open::{MIGRATIONS, apply_migrations};
use script::Script;

type Database = sqlx::Postgres;
type Connection = PgConnection;
/// How the open entries of a document are found. As a plain join, it is planned while there are next to none, and the plan
/// that is then kept goes through every open entry of the store for each document of a batch.
const OPEN_ENTRIES: &str = "CROSS JOIN LATERAL (SELECT * FROM entry WHERE entry.container = wanted.column1 \
     AND entry.partition = wanted.column2 AND entry.id = wanted.column3 AND entry.until IS NULL OFFSET 0) e";
/// How the head of an index entry is found; for the same reason.
const HEAD_OF_ENTRY: &str = "CROSS JOIN LATERAL (SELECT * FROM head WHERE head.container = e.container \
     AND head.partition = e.partition AND head.id = e.id OFFSET 0) h";
/// Begins a number of reads that are of one instant.
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const SHARED: bool = true;
/// A prepared statement is one statement.
const TOGETHER: bool = false;

/// The database's clock in microseconds since the epoch.
async fn now(_place: &Place, connection: &mut Connection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        .fetch_one(connection)
        .await
}

/// PostgreSQL keeps its pages in order by itself; `pg_amcheck` is there for those who doubt it.
async fn integrity(_connection: &mut Connection) -> Result<Vec<String>, sqlx::Error> {
    Ok(Vec::new())
}

async fn backup(place: &Place, _file: &Utf8Path) -> Result<(), Error> {
    Err(Error::Invalid {
        what: format!("backup of {place} to a file"),
        problem: format!("PostgreSQL's own tools do that better: `pg_dump --schema={}`", place.schema()),
    })
}

/// Opens for writing; makes the schema if there is none.
pub(crate) async fn open(
    address: &Address,
    incarnation: u32,
    wakes: Arc<Wakes>,
    tasks: &Tasks,
) -> Result<SqlEngine, Error> {
    open::migrate(address).await?;
    let readers = open::readers(address);
    let listening = listen::start(address, readers.clone(), wakes.clone(), tasks).await?;
    let generation = Arc::new(AtomicI64::new(i64::MAX));
    let writer = writer::Writer {
        address: address.clone(),
        connection: None,
        incarnation,
        wakes,
        generation: generation.clone(),
        _listening: listening,
    };
    let committer = Committer::start(tasks, writer);
    Ok(SqlEngine::new(address.clone(), readers, Some(committer), generation, None))
}

/// Opens to look.
pub(crate) async fn inspect(address: &Address) -> Result<SqlEngine, Error> {
    open::inspect(address).await?;
    let generation = Arc::new(AtomicI64::new(i64::MAX));
    Ok(SqlEngine::new(address.clone(), open::readers(address), None, generation, None))
}
