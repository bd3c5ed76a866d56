//! `store rotate-key`: seal its secrets with a new key.

use anyhow::anyhow;
use comfy_table::Table;
use pilothouse_store::Rotation;

use super::Place;
use crate::output;
use crate::{Failure, Hint, Output, Render};

/// Add a key, and seal every secret anew with it.
///
/// Documents keep their revisions and etags. The former keys stay in the key file, so that older backups can be
/// opened, unless `--retire` is given. Interrupted, it can simply be run again.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Remove the former keys for good: backups made before can then not be opened any more.
    #[arg(long)]
    retire: bool,
}

impl Args {
    pub(super) async fn run(self, place: &Place, output: &mut Output) -> Result<(), Failure> {
        let keyring = place
            .keyring()?
            .ok_or_else(|| anyhow!("there is no key file"))
            .hint("name it with `--key-file FILE`")?;
        let store = place.open(keyring).await?;
        let rotation = store.rotate_key(self.retire).await?;
        store.close().await;
        output.show(&rotation)
    }
}

impl Render for Rotation {
    fn table(&self) -> Table {
        let (resealed, retired) = (self.resealed.to_string(), self.retired.len().to_string());
        output::table(
            ["NEW KEY", "VERSIONS SEALED ANEW", "KEYS RETIRED"],
            [[self.key.as_str(), &resealed, &retired]],
        )
    }
}
