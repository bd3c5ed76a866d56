//! The table of who fell where, which a run of all tests shows at its end.

use std::env;
use std::fmt::Display;
use std::path::PathBuf;

use crate::environment;
use crate::requirement::append;

/// Adds a row, if somebody keeps the table.
///
/// # Panics
///
/// If the table cannot be written.
pub fn note(row: &impl Display) {
    let Some(path) = env::var_os(environment::FALLS).filter(|path| !path.is_empty()).map(PathBuf::from)
    else {
        return;
    };
    append(&path, &row.to_string())
        .unwrap_or_else(|error| panic!("cannot note a fall in {}: {error}", path.display()));
}
