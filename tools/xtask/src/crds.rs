//! The definitions of custom resources, as files.
//!
//! Like the pages of [`crate::reference`] they are compared, and written, by a test of the crate that they come from. The
//! test is named as everybody builds it, with the workspace, so that nothing is built twice.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::violation::Violation;

const FOLDER: &str = "schema/crds";

/// Whether the files are what the types are.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<Violation>> {
    if run_test(root, false)? {
        return Ok(Vec::new());
    }
    Ok(vec![Violation::new(FOLDER, "is not what the types are", "run `cargo xtask crds`")])
}

/// Writes the files.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(run_test(root, true)?, "{FOLDER} could not be written");
    Ok(())
}

fn run_test(root: &Path, write: bool) -> anyhow::Result<bool> {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["test", "--quiet", "--workspace", "--test", "definitions", "--"]);
    command.args(["--exact", "what_is_checked_in_is_what_the_code_says"]);
    if write {
        command.env(crate::reference::WRITE, "1");
    }
    Ok(command.status().context("cannot run cargo")?.success())
}
