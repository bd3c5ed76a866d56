//! `store check`: is everything in it as it should be?

use anyhow::anyhow;
use comfy_table::Table;
use pilothouse_store::Report;
use serde::Serialize;

use super::Place;
use crate::output;
use crate::{Failure, Hint, Output, Render};

/// Go through a store and say what does not fit together.
///
/// Reads every row: that each document is whole, that history, feed and indexes agree, that secrets are sealed
/// and, with their key file, can be opened. Changes nothing, and works while a service uses the store. Exits
/// with 1 if anything is found.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked {
    store: String,
    #[serde(flatten)]
    report: Report,
}

impl Args {
    pub(super) async fn run(self, place: &Place, output: &mut Output) -> Result<(), Failure> {
        let store = place.inspect().await?;
        let report = store.check().await?;
        store.close().await;
        let found = report.problems.len();
        let location = place.location()?.to_string();
        output.show(&Checked { store: location.clone(), report })?;
        if found > 0 {
            return Err(anyhow!("{location} has {found} problem(s)"))
                .hint("keep the file as it is and restore a backup beside it");
        }
        Ok(())
    }
}

impl Render for Checked {
    fn table(&self) -> Table {
        let report = &self.report;
        let secrets = match (report.sealed.values().sum::<u64>(), report.secrets_opened) {
            (0, _) => "none".to_owned(),
            (sealed, true) => format!("{sealed} sealed versions, opened"),
            (sealed, false) => format!("{sealed} sealed versions, not opened (no key file)"),
        };
        let containers =
            report.containers.iter().map(|(name, count)| (format!("documents in {name}"), count.to_string()));
        let rows: Vec<(String, String)> = [
            ("store".to_owned(), self.store.clone()),
            ("revision".to_owned(), report.revision.to_string()),
            ("oldest revision kept".to_owned(), report.oldest.to_string()),
            ("documents".to_owned(), report.documents.to_string()),
        ]
        .into_iter()
        .chain(containers)
        .chain([
            ("versions".to_owned(), report.versions.to_string()),
            ("secrets".to_owned(), secrets),
            ("problems".to_owned(), report.problems.len().to_string()),
        ])
        .chain(
            report.problems.iter().map(|problem| (format!("  {}", problem.place), problem.finding.clone())),
        )
        .collect();
        output::table(["WHAT", "FOUND"], rows.iter().map(|(what, found)| [what.as_str(), found.as_str()]))
    }
}
