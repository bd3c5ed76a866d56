//! `store backup`: a copy while it is in use.

use comfy_table::Table;
use serde::Serialize;

use super::Place;
use crate::output;
use crate::{Failure, Hint, Output, Render};

/// Copy a store to a file while it is in use. SQLite only.
///
/// The copy is of one instant, whole or not there at all, and a store itself. Secrets in it stay sealed: keep the
/// key file too, in another place. For PostgreSQL use `pg_dump --schema=NAME`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The copy. Must not exist.
    #[arg(value_name = "FILE")]
    file: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Copied {
    store: String,
    backup: String,
    bytes: u64,
}

impl Args {
    pub(super) async fn run(self, place: &Place, output: &mut Output) -> Result<(), Failure> {
        let store = place.inspect().await?;
        let copied = store.backup(self.file.as_str()).await;
        copied.hint("docs/how-to/back-up-a-store.md tells how to back up each kind of store")?;
        store.close().await;
        let bytes = std::fs::metadata(&self.file)?.len();
        output.show(&Copied { store: place.location()?.to_string(), backup: self.file, bytes })
    }
}

impl Render for Copied {
    fn table(&self) -> Table {
        let bytes = self.bytes.to_string();
        output::table(["STORE", "BACKUP", "BYTES"], [[self.store.as_str(), &self.backup, &bytes]])
    }
}
