//! What PostgreSQL's error codes mean for a caller.

use super::address::Address;
use crate::Error;

/// Whether the connection is of no more use: it was cut, the server is going down, or has become a standby.
pub(super) fn is_connection_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            // 08: connection; 57P01–57P05: shutdown, crash, starting up, idle time-out; 25P03: idle in transaction;
            // 25006: a standby.
            code.starts_with("08") || code.starts_with("57P") || code == "25P03" || code == "25006"
        }),
        _ => false,
    }
}

/// Whether the same statements may succeed if they are run again.
pub(super) fn is_passing(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    // 40001, 40P01: serialization, deadlock; 55P03: lock not available; 57014: cancelled by time-out; 53300: too many
    // connections; 53200: memory.
    code.is_some_and(|code| {
        matches!(code.as_ref(), "40001" | "40P01" | "55P03" | "57014" | "53300" | "53200")
    })
}

/// An error of anything but a commit: nothing was written.
pub(super) fn classify(address: &Address, action: &'static str, error: sqlx::Error) -> Error {
    let database = address.to_string();
    if matches!(error, sqlx::Error::PoolClosed) {
        return Error::Closed;
    }
    if is_connection_lost(&error) || is_passing(&error) {
        let problem = format!("{database} could not be reached or could not go on when it {action}");
        return Error::Unavailable { problem, source: error.into() };
    }
    match error.as_database_error().and_then(|error| error.code()).as_deref() {
        Some("53100") => Error::Full { database, source: error.into() },
        Some("XX001" | "XX002") => Error::Damaged { database, source: error.into() },
        Some("42501") => Error::ReadOnly { database, source: error.into() },
        _ => Error::Engine { action, source: error.into() },
    }
}
