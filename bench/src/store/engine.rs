//! The engines that are measured.

use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use pilothouse_runtime::Shutdown;
use pilothouse_store::{Location, Options, Retention, Store};
use pilothouse_test_support::postgres::Server;

use super::document;
use crate::harness::Folder;

/// An engine and where it keeps its databases.
#[derive(Clone, Copy, Debug)]
pub(super) enum Engine<'a> {
    Sqlite(&'a Folder),
    Postgres(&'a Server),
}

impl Engine<'_> {
    /// A place where no database is yet. The name tells files apart.
    pub(super) fn fresh(self, name: &str) -> anyhow::Result<Location> {
        match self {
            Self::Sqlite(folder) => {
                let path = folder.path().join(format!("{name}.db"));
                Ok(Location::sqlite(path.to_str().context("the temporary folder's name is not UTF-8")?))
            }
            Self::Postgres(server) => Ok(format!("{}?schema=documents", server.fresh_database()).parse()?),
        }
    }
}

impl fmt::Display for Engine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        })
    }
}

/// Opens a store as a service would; only the past is kept for as long as a run may take.
pub(super) async fn open(location: &Location) -> anyhow::Result<Store> {
    let day = Duration::from_secs(86_400);
    let options = Options::new(location.clone(), document::catalog()?, Shutdown::new());
    Ok(Store::open(Options { retention: Retention { keep: day, ..Retention::default() }, ..options }).await?)
}
