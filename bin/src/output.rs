//! Data on standard output, in the form that was asked for.

use std::io::{self, Write};

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::Failure;

/// The options that every verb which prints data understands.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct OutputArgs {
    /// How to print data: for reading, or for other programs.
    #[arg(long, value_enum, global = true, default_value_t = Format::Table, value_name = "FORMAT")]
    output: Format,
}

/// A form of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for people. Their number and order may change.
    Table,
    /// One JSON document for programs. Fields are only ever added.
    Json,
}

/// Data that a verb can print.
pub trait Render: Serialize {
    /// The columns for people; build them with `output::table`.
    fn table(&self) -> Table;
}

/// Standard output. The only place in the commands that writes to it.
#[derive(Debug)]
pub struct Output<W = io::Stdout> {
    format: Format,
    writer: W,
}

impl Output {
    /// Standard output in the form that the command line asks for.
    pub fn stdout(args: OutputArgs) -> Self {
        Self { format: args.output, writer: io::stdout() }
    }
}

impl<W: Write> Output<W> {
    /// Prints data.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn show(&mut self, data: &impl Render) -> Result<(), Failure> {
        let mut text = match self.format {
            Format::Table => data.table().trim_fmt(),
            Format::Json => serde_json::to_string_pretty(data)?,
        };
        text.push('\n');
        self.raw(text.as_bytes())
    }

    /// Whether the data is to be read by people, who may be told more than they asked for.
    pub fn is_for_people(&self) -> bool {
        self.format == Format::Table
    }

    /// Prints bytes that have a form of their own.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer.write_all(bytes)?;
        self.writer.flush()?;
        Ok(())
    }
}

/// A table in the one style of these commands: columns apart, no lines, never wrapped, so that `grep`, `cut` and a
/// narrow terminal see the same rows.
pub(crate) fn table<'a, const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [&'a str; COLUMNS]>,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header).add_rows(rows);
    // The first column starts at the margin.
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((u16::from(index > 0), 1));
    }
    table
}

/// Lines without columns, where a table would say less.
pub(crate) fn lines(lines: &[String]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.add_rows(lines.iter().map(|line| [line]));
    for column in table.column_iter_mut() {
        column.set_padding((0, 0));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Ship {
        name: &'static str,
    }

    impl Render for Ship {
        fn table(&self) -> Table {
            table(["NAME", "KIND"], [[self.name, "ship"]])
        }
    }

    fn printed(format: Format) -> String {
        let mut output = Output { format, writer: Vec::new() };
        output.show(&Ship { name: "ada" }).unwrap();
        String::from_utf8(output.writer).unwrap()
    }

    #[test]
    fn table_starts_at_the_margin_and_ends_without_blanks() {
        assert_eq!(printed(Format::Table), "NAME  KIND\nada   ship\n");
    }

    #[test]
    fn json_is_one_document() {
        assert_eq!(printed(Format::Json), "{\n  \"name\": \"ada\"\n}\n");
    }
}
