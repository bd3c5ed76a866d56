//! The engines that a store may have, for tests that run over each of them.

use std::path::Path;

use crate::postgres;

/// Where a store keeps its documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// A file.
    Sqlite,
    /// A database of the server that the tests of this process share.
    Postgres,
}

impl Engine {
    /// The location of an empty store, as text; a file of it is in `folder`. `None` if the machine has no PostgreSQL:
    /// the test was noted as skipped and should return.
    ///
    /// # Panics
    ///
    /// If the server does not start, or is missing where nothing may be skipped.
    pub fn location(self, folder: &Path) -> Option<String> {
        match self {
            Self::Sqlite => Some(format!("sqlite:{}", folder.join("store.db").display())),
            Self::Postgres => Some(format!("{}?schema=documents", postgres::shared()?.fresh_database())),
        }
    }
}
