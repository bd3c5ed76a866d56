//! Pages of the documentation that are made from the code.
//!
//! Each is made by the crate that it is about, in a test that compares it with the file; told to, the test writes the file
//! instead. So the pages are checked with all other tests, and this program does not have to be built with the servers.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

/// The package and the test of each page.
const PAGES: &[(&str, &str)] = &[("pilothouse-kubeapi", "reference::tests::page_is_what_the_code_says")];

/// Tells the tests to write.
pub(crate) const WRITE: &str = "PILOTHOUSE_WRITE_REFERENCE";

/// Writes all pages, or only says whether they are what the code says.
pub(crate) fn run(root: &Path, check: bool) -> anyhow::Result<()> {
    for (package, test) in PAGES {
        let mut command = Command::new("cargo");
        command.current_dir(root).args([
            "test",
            "--quiet",
            "--package",
            package,
            "--lib",
            test,
            "--",
            "--exact",
        ]);
        if !check {
            command.env(WRITE, "1");
        }
        let status = command.status().context("cannot run cargo")?;
        anyhow::ensure!(status.success(), "{package} has a stale page: run `cargo xtask reference`");
    }
    Ok(())
}
