//! `cargo xtask maestro`: the original Maestro, for tests in which one side is ours and the other is not.
//!
//! Two programs of one pinned version end up in one folder of the cache, built from the Go module `tools/maestro`, whose
//! `go.mod` is also where the version is written. Neither can say its version, so the folder is named after it, and a
//! program is put there when it is complete.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use pilothouse_upstream::{Job, build, cache, place_by};

use crate::upstream::say;

/// Where the Go module is, below the root of the workspace.
const MODULE: &str = "tools/maestro";

/// What is built: file names and packages.
const PROGRAMS: [(&str, &str); 2] = [
    // Server and agent.
    ("maestro", "github.com/openshift-online/maestro/cmd/maestro"),
    // Its published example of a source, over its own client package.
    ("maestro-source", "github.com/openshift-online/maestro/examples/manifestwork"),
];

/// What is asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The cache folder, in which there is one folder per version [default: pilothouse/maestro in the user's cache].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

/// Provides both programs, and prints where.
pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    let module = root.join(MODULE);
    let manifest = module.join("go.mod");
    let text =
        fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    let version = version(&text)?;
    let folder = cache(args.cache.as_deref(), "maestro")?.join(version);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, package) in PROGRAMS {
        let place = folder.join(name);
        if !place.is_file() {
            let job = Job { name, version, package, module: &module, linker_flags: "-s -w" };
            say(&format!("{name}: building {version} (the first time this takes minutes)"));
            place_by(&place, |target| build(&job, target, &say))
                .with_context(|| format!("{name} could not be provided"))?;
        }
        writeln!(io::stdout().lock(), "{}", place.display())?;
    }
    Ok(())
}

/// The version that `go.mod` requires.
fn version(manifest: &str) -> anyhow::Result<&str> {
    let required = manifest.lines().find_map(|line| {
        line.trim().trim_start_matches("require ").strip_prefix("github.com/openshift-online/maestro ")
    });
    required
        .and_then(|rest| rest.split_whitespace().next())
        .context("go.mod does not require github.com/openshift-online/maestro")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_the_one_of_the_committed_module() {
        let found = version(include_str!("../../maestro/go.mod")).unwrap();
        assert!(found.starts_with("v0.0.0-"), "{found}");
        assert!(version("module x\n").is_err());
    }
}
