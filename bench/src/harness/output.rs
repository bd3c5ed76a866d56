//! Data on standard output, in the form that was asked for.

use std::io::{self, Write as _};

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

/// A form of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people. Their number and order may change.
    Table,
    /// One JSON document for programs. Fields are only ever added.
    Json,
}

/// Data that can be printed.
pub(crate) trait Render: Serialize {
    /// The text for people, with its last line ended.
    fn text(&self) -> String;
}

impl Format {
    pub(crate) fn print(self, data: &impl Render) -> anyhow::Result<()> {
        let text = match self {
            Self::Table => data.text(),
            Self::Json => serde_json::to_string_pretty(data)? + "\n",
        };
        let mut output = io::stdout().lock();
        output.write_all(text.as_bytes())?;
        output.flush()?;
        Ok(())
    }
}

/// An empty table with these columns.
pub(crate) fn table<const COLUMNS: usize>(columns: [&str; COLUMNS]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns);
    // The first column starts at the margin.
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((u16::from(index > 0), 1));
    }
    table
}
