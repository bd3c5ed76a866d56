//! `cargo xtask maestro` and `cargo xtask helm`: programs of others, for tests in which one side is ours and the other is not.
//!
//! The programs of one pinned version end up in one folder of the cache, built from a Go module in `tools`, whose
//! `go.mod` is also where the version is written. Not all can say their version, so the folder is named after it, and a
//! program is put there when it is complete.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use pilothouse_upstream::{Job, build, cache, place_by};

use crate::upstream::say;

/// The original Maestro.
pub(crate) const MAESTRO: Original = Original {
    name: "maestro",
    requirement: "github.com/openshift-online/maestro",
    programs: &[
        // Its published example of a source, over its own client package.
        ("maestro-source", "github.com/openshift-online/maestro/examples/manifestwork"),
        // Server and agent.
        ("maestro", "github.com/openshift-online/maestro/cmd/maestro"),
    ],
};

/// What installs charts.
pub(crate) const HELM: Original = Original {
    name: "helm",
    requirement: "helm.sh/helm/v3",
    programs: &[("helm", "helm.sh/helm/v3/cmd/helm")],
};

/// Programs of one module of others.
#[derive(Debug)]
pub(crate) struct Original {
    /// What the Go module in `tools` and the folder in the cache are called.
    name: &'static str,
    /// The module whose version counts.
    requirement: &'static str,
    /// What is built: file names and packages. The one with the name of all comes last: where it is, they all are.
    programs: &'static [(&'static str, &'static str)],
}

/// What is asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The cache folder, in which there is one folder per version [default: pilothouse/NAME in the user's cache].
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
}

impl Original {
    /// Provides the programs, and prints where.
    pub(crate) fn run(&self, root: &Path, args: &Args) -> anyhow::Result<()> {
        let module = root.join("tools").join(self.name);
        let manifest = module.join("go.mod");
        let text =
            fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
        let version = self.version(&text)?;
        let folder = cache(args.cache.as_deref(), self.name)?.join(version);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for (name, package) in self.programs {
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
    fn version<'a>(&self, manifest: &'a str) -> anyhow::Result<&'a str> {
        let required = manifest.lines().find_map(|line| {
            line.trim().trim_start_matches("require ").strip_prefix(self.requirement)?.strip_prefix(' ')
        });
        required
            .and_then(|rest| rest.split_whitespace().next())
            .with_context(|| format!("go.mod does not require {}", self.requirement))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_the_one_of_the_committed_module() {
        let found = MAESTRO.version(include_str!("../../maestro/go.mod")).unwrap();
        assert!(found.starts_with("v0.0.0-"), "{found}");
        let found = HELM.version(include_str!("../../helm/go.mod")).unwrap();
        assert!(found.starts_with("v3."), "{found}");
        assert!(MAESTRO.version("module x\n").is_err());
    }
}
