//! How long builds take: of everything from nothing, and of one service and its tests after a change.
//!
//! What is built is a copy of what git has in its index, in a folder of its own, so that neither the checkout nor what was
//! built of it is touched.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use tokio::process::Command;
use tokio::time::Instant;

use crate::harness::{Budget, Figure, Folder, Progress, Report};

/// The service whose tests are built again, and where it is.
const SERVICE: (&str, &str) = ("pilothouse-frontend", "services/frontend/src/lib.rs");
/// What is added to it.
const LINE: &str = "const _: &str = \"one line more\";";

pub(super) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let folder = Folder::create()?;
    let tree = folder.path().join("tree");
    copy(&tree).await?;
    // What comes over the network is no part of a build.
    cargo(&tree, &["fetch", "--locked"]).await?;
    let took = cargo(&tree, &["build", "--release", "--locked"]).await?;
    report.figure(
        Figure::new("cold release build", took / 60.0, "min")
            .budget(Budget::Below(12.0))
            .note("cargo build --release, with everything fetched"),
    );
    let (service, file) = SERVICE;
    let test = ["test", "--locked", "--package", service];
    cargo(&tree, &test).await?;
    append(&tree.join(file))?;
    let took = cargo(&tree, &test).await?;
    report.figure(
        Figure::new("cargo test of one service crate after a one-line change", took, "s")
            .budget(Budget::Below(60.0))
            .note(format!("{service}, built and run")),
    );
    Ok(())
}

/// Copies what git has of this workspace.
async fn copy(tree: &Path) -> anyhow::Result<()> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("there is no workspace")?;
    let mut command = Command::new("git");
    // With the separator: it is taken as it is.
    command
        .args(["checkout-index", "--all"])
        .arg(format!("--prefix={}/", tree.display()))
        .current_dir(workspace);
    run(command).await
}

/// Runs cargo on the copy. Returns the seconds it took.
async fn cargo(tree: &Path, arguments: &[&str]) -> anyhow::Result<f64> {
    Progress.say(&format!("cargo {}", arguments.join(" ")));
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(tree).env("CARGO_TARGET_DIR", tree.join("target"));
    let start = Instant::now();
    run(command).await?;
    Ok(start.elapsed().as_secs_f64())
}

/// What a program says is told only if it fails.
async fn run(mut command: Command) -> anyhow::Result<()> {
    let output = command.kill_on_drop(true).output().await.with_context(|| format!("{command:?}"))?;
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{command:?} ended with {}; it said:\n{}", output.status, said());
    Ok(())
}

fn append(file: &Path) -> anyhow::Result<()> {
    let mut file = File::options().append(true).open(file).with_context(|| file.display().to_string())?;
    writeln!(file, "{LINE}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_is_where_its_tests_are_built_from() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let (service, file) = SERVICE;
        let manifest = workspace.join(file).parent().and_then(Path::parent).unwrap().join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        assert!(manifest.contains(&format!("name = \"{service}\"")), "{manifest}");
    }

    #[test]
    fn one_line_is_added_to_what_is_there() {
        let folder = Folder::create().unwrap();
        let file = folder.path().join("lib.rs");
        std::fs::write(&file, "//! A crate.\n").unwrap();
        append(&file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("//! A crate.\n{LINE}\n"));
    }
}
