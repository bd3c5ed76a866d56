//! `store init`: an empty store.

use anyhow::anyhow;
use comfy_table::Table;
use pilothouse_runtime::Shutdown;
use pilothouse_store::{Catalog, Keyring, Options, SCHEMA_VERSION, Store};
use serde::Serialize;

use super::Place;
use crate::output;
use crate::{Failure, Hint, Output, Render};

/// Make an empty store and its key file, if there is none.
///
/// Services do this by themselves; by hand it is of use to prepare a PostgreSQL schema with the rights of an
/// administrator, or to try the other commands.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Made {
    store: String,
    /// Otherwise it was there already, and is as it was.
    made: bool,
    schema_version: i64,
    key_file: String,
}

impl Args {
    pub(super) async fn run(self, place: &Place, output: &mut Output) -> Result<(), Failure> {
        let location = place.location()?;
        let key_file = place
            .key_file()?
            .ok_or_else(|| anyhow!("no place for the keys was named"))
            .hint("name a file with `--key-file FILE`")?;
        let exists = Store::inspect(&location, None, Shutdown::new()).await.is_ok();
        let keyring = Keyring::open_or_create(key_file.as_str())?;
        if !exists {
            let options = Options {
                keyring: Some(keyring),
                ..Options::new(location.clone(), Catalog::default(), Shutdown::new())
            };
            let store = Store::open(options).await?;
            store.close().await;
        }
        output.show(&Made {
            store: location.to_string(),
            made: !exists,
            schema_version: SCHEMA_VERSION,
            key_file,
        })
    }
}

impl Render for Made {
    fn table(&self) -> Table {
        let version = self.schema_version.to_string();
        let state = if self.made { "made" } else { "was there" };
        output::table(
            ["STORE", "STATE", "SCHEMA", "KEY FILE"],
            [[self.store.as_str(), state, &version, &self.key_file]],
        )
    }
}
