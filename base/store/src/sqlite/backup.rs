//! An online copy, and SQLite's own check.

use camino::Utf8Path;
use sqlx::{Connection as _, Row as _, SqliteConnection};

use super::Place;
use super::error::classify;
use super::open::{options, private_file};
use crate::Error;

/// Copies a snapshot to a file that must not exist. Written beside and linked, so that no half copy ever has
/// the name that was asked for.
pub(super) async fn backup(place: &Place, file: &Utf8Path) -> Result<(), Error> {
    let database = &place.path;
    let invalid = |problem: String| Error::Invalid { what: format!("backup file {file}"), problem };
    if file.exists() {
        return Err(invalid("it exists already; name another one".to_owned()));
    }
    let beside = Utf8Path::new(file).with_extension(format!("{}.partial", std::process::id()));
    let _ = std::fs::remove_file(&beside);
    private_file(&beside).map_err(|error| invalid(format!("{beside} cannot be made ({error})")))?;
    let copied = copy(database, &beside).await;
    let placed = match copied {
        Ok(()) => give_name(&beside, file).map_err(|error| invalid(error.to_string())),
        Err(error) => Err(match classify(database, "copied the database", error) {
            Error::ReadOnly { source, .. } => {
                invalid(format!("its directory is missing or cannot be written ({source})"))
            }
            Error::Full { source, .. } => Error::Full { database: file.to_string(), source },
            error => error,
        }),
    };
    let _ = std::fs::remove_file(&beside);
    placed
}

/// Over a connection of its own: the others refuse to write anything, and to SQLite a copy is a write.
async fn copy(database: &Utf8Path, beside: &Utf8Path) -> Result<(), sqlx::Error> {
    let mut connection = SqliteConnection::connect_with(&options(database)).await?;
    sqlx::query("VACUUM INTO $1").bind(beside.as_str()).execute(&mut connection).await?;
    connection.close().await
}

fn give_name(beside: &Utf8Path, file: &Utf8Path) -> std::io::Result<()> {
    std::fs::File::open(beside)?.sync_all()?;
    std::fs::hard_link(beside, file)?;
    let directory =
        file.parent().filter(|parent| !parent.as_str().is_empty()).unwrap_or_else(|| Utf8Path::new("."));
    std::fs::File::open(directory)?.sync_all()
}

/// What `PRAGMA integrity_check` finds; nothing if all is well.
pub(super) async fn integrity(connection: &mut SqliteConnection) -> Result<Vec<String>, sqlx::Error> {
    let rows = sqlx::query("PRAGMA integrity_check").fetch_all(connection).await?;
    let lines = rows.iter().map(|row| row.try_get::<String, _>(0)).collect::<Result<Vec<_>, _>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}
