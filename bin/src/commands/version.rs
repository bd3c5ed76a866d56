//! `version`: which build this is.

use comfy_table::Table;
use serde::Serialize;

use crate::output;
use crate::{Failure, Output, Render};

/// Print which build this is.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// What a bug report should begin with.
#[derive(Debug, Serialize)]
struct Version {
    name: &'static str,
    version: &'static str,
    /// Packagers set `PILOTHOUSE_COMMIT` when they build; a plain `cargo build` knows no commit, and finding one
    /// out would rebuild the binary at every commit.
    commit: Option<&'static str>,
}

impl Args {
    /// Prints name, version and commit.
    ///
    /// # Errors
    ///
    /// If standard output cannot be written to.
    pub fn run(self, name: &'static str, output: &mut Output) -> Result<(), Failure> {
        output.show(&Version {
            name,
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("PILOTHOUSE_COMMIT"),
        })
    }
}

impl Render for Version {
    fn table(&self) -> Table {
        output::table(
            ["NAME", "VERSION", "COMMIT"],
            [[self.name, self.version, self.commit.unwrap_or("unknown")]],
        )
    }
}
