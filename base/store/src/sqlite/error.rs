//! What SQLite's result codes mean for a caller.

use camino::Utf8Path;

use crate::Error;

// The primary result codes of SQLite that call for different answers.
const BUSY: i32 = 5;
const READ_ONLY: i32 = 8;
const INPUT_OUTPUT: i32 = 10;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANNOT_OPEN: i32 = 14;
const NOT_A_DATABASE: i32 = 26;
/// An extended code: the memory shared with readers could not be enlarged, which on a full disk comes first.
const SHARED_MEMORY_SIZE: i32 = INPUT_OUTPUT | (19 << 8);

fn code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

/// An error of anything but a commit: nothing was written.
pub(super) fn classify(path: &Utf8Path, action: &'static str, error: sqlx::Error) -> Error {
    let database = path.to_string();
    let extended = code(&error);
    if extended == Some(SHARED_MEMORY_SIZE) {
        return Error::Full { database, source: error.into() };
    }
    match extended.map(|code| code & 0xff) {
        Some(FULL) => Error::Full { database, source: error.into() },
        Some(READ_ONLY | CANNOT_OPEN) => Error::ReadOnly { database, source: error.into() },
        Some(CORRUPT) => Error::Damaged { database, source: error.into() },
        Some(NOT_A_DATABASE) => Error::Foreign {
            database,
            problem: "it is no SQLite database, or its first page is damaged".to_owned(),
        },
        Some(BUSY | INPUT_OUTPUT) => Error::Unavailable {
            problem: format!("SQLite could not go on when it {action}"),
            source: error.into(),
        },
        _ => match error {
            sqlx::Error::PoolClosed => Error::Closed,
            sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => {
                Error::Unavailable { problem: "no connection became free".to_owned(), source: error.into() }
            }
            sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } => {
                Error::Damaged { database, source: error.into() }
            }
            _ => Error::Engine { action, source: error.into() },
        },
    }
}

/// An error of a commit. If the log could not be flushed, its pages may still reach the disk later.
pub(super) fn classify_commit(path: &Utf8Path, error: sqlx::Error) -> Error {
    match code(&error).map(|code| code & 0xff) {
        Some(INPUT_OUTPUT) => Error::Uncertain { source: error.into() },
        _ => classify(path, "committed a batch", error),
    }
}
