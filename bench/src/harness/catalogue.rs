//! Which benchmarks there are.

use clap::{Command, Subcommand};
use serde::Serialize;

use super::{Render, table};

/// All benchmarks, as the command line knows them.
#[derive(Debug, Serialize)]
pub(crate) struct Catalogue(Vec<Entry>);

#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) about: String,
}

impl Catalogue {
    /// From the verbs that run them, so that none can be forgotten.
    pub(crate) fn of<Benchmarks: Subcommand>() -> Self {
        let command = Benchmarks::augment_subcommands(Command::new("benchmarks"));
        let entries = command.get_subcommands().map(|verb| Entry {
            name: verb.get_name().to_owned(),
            about: verb.get_about().map(ToString::to_string).unwrap_or_default(),
        });
        Self(entries.collect())
    }

    #[cfg(test)]
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.0
    }
}

impl Render for Catalogue {
    fn text(&self) -> String {
        let mut table = table(["Benchmark", "What it measures"]);
        for Entry { name, about } in &self.0 {
            table.add_row([name, about]);
        }
        table.trim_fmt() + "\n"
    }
}
