//! Opening a file: is it ours, is it of a version we know, can it be written.

use std::time::Duration;

use camino::Utf8Path;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, Row as _, SqliteConnection, SqlitePool};

use super::error::classify;
use crate::sql::{SCHEMA_VERSION, Step, migration_error, migrator};
use crate::{Durability, Error};

/// In SQLite's header, so that a file of something else is not taken for a store: "Pilo".
pub(super) const APPLICATION_ID: i32 = 0x5069_6c6f;

pub(super) const MIGRATIONS: &[Step] =
    &[(1, "documents", include_str!("../../migrations/sqlite/0001_documents/up.sql"))];

/// A connection for the one writer, to a database of the present schema.
pub(super) async fn writer(path: &Utf8Path, durability: Durability) -> Result<SqliteConnection, Error> {
    let fresh = recognise(path, false).await?;
    private_file(path)
        .map_err(|error| Error::ReadOnly { database: path.to_string(), source: error.into() })?;
    let failed = |action| move |error| classify(path, action, error);
    let synchronous = match durability {
        Durability::PowerLoss => SqliteSynchronous::Full,
        Durability::ProcessDeath => SqliteSynchronous::Normal,
        Durability::None => SqliteSynchronous::Off,
    };
    let options = options(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        // Pages of the log before they are folded into the file, 16 MiB. More than SQLite's own measure, since folding
        // is what batches wait for most; after a burst, the log shrinks back to that size.
        .pragma("wal_autocheckpoint", "4000")
        .pragma("journal_size_limit", "16777216");
    let mut connection =
        SqliteConnection::connect_with(&options).await.map_err(failed("opened the database"))?;
    if fresh {
        sqlx::query(crate::sql::trusted(format!("PRAGMA application_id = {APPLICATION_ID}")))
            .execute(&mut connection)
            .await
            .map_err(failed("marked the database"))?;
    }
    apply_migrations(path, &mut connection, SCHEMA_VERSION).await?;
    // SQLite opens a file it may not write without a word, and begins an immediate transaction on it as one that
    // reads. A statement that writes tells, even if it has nothing to write.
    sqlx::query("UPDATE store SET one = one WHERE false")
        .execute(&mut connection)
        .await
        .map_err(failed("took the write lock"))?;
    Ok(connection)
}

/// Makes an empty file for its owner only, if there is none; what is sealed is not all there is to know. SQLite
/// gives its log the same rights.
pub(super) fn private_file(path: &Utf8Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Brings the schema to a version. Tests stop on the way.
pub(super) async fn apply_migrations(
    path: &Utf8Path,
    connection: &mut SqliteConnection,
    version: i64,
) -> Result<(), Error> {
    migrator(MIGRATIONS).run_to(version, connection).await.map_err(|error| match error {
        sqlx::migrate::MigrateError::Execute(error)
        | sqlx::migrate::MigrateError::ExecuteMigration(error, _) => {
            classify(path, "migrated the schema", error)
        }
        error => {
            let text = error.to_string();
            migration_error(path.as_str(), error)
                .unwrap_or(Error::Engine { action: "migrated the schema", source: text.into() })
        }
    })
}

/// A look at a database that must exist, without writing to it.
pub(super) async fn inspect(path: &Utf8Path) -> Result<(), Error> {
    if !path.exists() {
        return Err(Error::Foreign {
            database: path.to_string(),
            problem: "there is no such file".to_owned(),
        });
    }
    if recognise(path, true).await? {
        return Err(Error::Foreign { database: path.to_string(), problem: "it is empty".to_owned() });
    }
    let failed = |error| classify(path, "looked at its schema", error);
    let mut connection =
        SqliteConnection::connect_with(&options(path).read_only(true)).await.map_err(failed)?;
    let found: i64 = sqlx::query("SELECT max(version) AS version FROM migration")
        .fetch_one(&mut connection)
        .await
        .and_then(|row| row.try_get("version"))
        .map_err(failed)?;
    connection.close().await.map_err(failed)?;
    match found {
        SCHEMA_VERSION => Ok(()),
        found if found > SCHEMA_VERSION => {
            Err(Error::Newer { database: path.to_string(), found, known: SCHEMA_VERSION })
        }
        found => Err(Error::Foreign {
            database: path.to_string(),
            problem: format!(
                "it has schema version {found}, this program reads {SCHEMA_VERSION}; start the service once to migrate it"
            ),
        }),
    }
}

/// What a reading connection keeps of the file: 512 KiB, in the words of SQLite. Each has its own, and a process has several stores
/// with several connections each. What is asked for often is at hand before any connection is asked, and the rest of the file
/// is in the memory of the kernel, once for all of them.
const READ_CACHE: &str = "-512";

/// Reading connections are made when they are needed.
pub(super) fn readers(path: &Utf8Path, read_only: bool) -> SqlitePool {
    let options =
        options(path).read_only(read_only).pragma("query_only", "ON").pragma("cache_size", READ_CACHE);
    SqlitePoolOptions::new()
        .max_connections(4)
        .acquire_timeout(Duration::from_secs(30))
        .idle_timeout(Duration::from_secs(60))
        .max_lifetime(None)
        .test_before_acquire(false)
        .connect_lazy_with(options)
}

pub(super) fn options(path: &Utf8Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .busy_timeout(Duration::from_secs(10))
        .disable_statement_logging()
}

/// Whether the file is missing or empty (true) or ours (false); anything else is an error. Looks through
/// SQLite and not at the bytes, since the first page may still be in the log.
async fn recognise(path: &Utf8Path, read_only: bool) -> Result<bool, Error> {
    if !path.exists() {
        return Ok(true);
    }
    // Whoever closes a database last folds its log in, unless he may only read; a log that was left behind may be
    // another program's. But only a writer may roll back what was interrupted before there was a log.
    let log = std::fs::metadata(format!("{path}-wal")).is_ok_and(|log| log.len() > 0);
    let found = match look(path, read_only || log).await {
        Err(Error::ReadOnly { .. }) if !read_only && log => look(path, false).await?,
        found => found?,
    };
    match found {
        (APPLICATION_ID, 0) | (0, 0) => Ok(true),
        (APPLICATION_ID, _) => Ok(false),
        (id, tables) => Err(Error::Foreign {
            database: path.to_string(),
            problem: format!(
                "it is a database of something else (application id {id}, {tables} tables and indexes)"
            ),
        }),
    }
}

/// The application id, and how many tables and indexes there are.
async fn look(path: &Utf8Path, read_only: bool) -> Result<(i32, i64), Error> {
    let failed = |error| classify(path, "looked at the database", error);
    let mut connection =
        SqliteConnection::connect_with(&options(path).read_only(read_only)).await.map_err(failed)?;
    let found = async {
        let id: i32 = sqlx::query("PRAGMA application_id")
            .fetch_one(&mut connection)
            .await?
            .try_get("application_id")?;
        let tables: i64 = sqlx::query("SELECT count(*) AS tables FROM sqlite_master")
            .fetch_one(&mut connection)
            .await?
            .try_get("tables")?;
        Ok::<_, sqlx::Error>((id, tables))
    }
    .await
    .map_err(failed)?;
    connection.close().await.map_err(failed)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_that_read_keep_little_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("store.db");
        writer(&path, Durability::None).await.unwrap().close().await.unwrap();
        let pool = readers(&path, false);
        let mut held = Vec::new();
        for _ in 0..4 {
            let mut connection = pool.acquire().await.unwrap();
            let row = sqlx::query("PRAGMA cache_size").fetch_one(&mut *connection).await.unwrap();
            assert_eq!(row.get::<i64, _>(0).to_string(), READ_CACHE);
            held.push(connection);
        }
    }
}
