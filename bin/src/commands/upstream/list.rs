//! `upstream list`.

use std::path::Path;

use comfy_table::Table;
use pilothouse_upstream::Version;
use serde::Serialize;

use crate::{Failure, Output, Render, output};

/// List the versions that can be installed, and what is missing of each.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

#[derive(Debug, Serialize)]
struct Versions {
    versions: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    kubernetes: String,
    etcd: String,
    releases: String,
    installed: bool,
    missing: Vec<&'static str>,
}

impl Args {
    pub(super) fn run(self, root: &Path, output: &mut Output) -> Result<(), Failure> {
        let row = |version: &Version| {
            let missing = version.missing_in(root);
            Row {
                kubernetes: version.number().to_owned(),
                etcd: version.etcd().trim_start_matches('v').to_owned(),
                releases: super::releases(version),
                installed: missing.is_empty(),
                missing,
            }
        };
        output.show(&Versions { versions: Version::all().iter().map(row).collect() })
    }
}

impl Render for Versions {
    fn table(&self) -> Table {
        let states: Vec<_> = self.versions.iter().map(Row::state).collect();
        let rows = self.versions.iter().zip(&states).map(|(row, state)| {
            [row.kubernetes.as_str(), row.etcd.as_str(), row.releases.as_str(), state.as_str()]
        });
        output::table(["KUBERNETES", "ETCD", "RELEASES", "INSTALLED"], rows)
    }
}

impl Row {
    fn state(&self) -> String {
        if self.installed { "yes".to_owned() } else { format!("lacks {}", self.missing.join(", ")) }
    }
}
