//! The original Maestro, for tests in which one side is ours and the other is not.
//!
//! `cargo xtask maestro` puts it into the cache, in a folder of its version. Nothing else is looked at.

use std::env;
use std::path::PathBuf;

use crate::environment;
use crate::requirement;

/// Where the version is pinned.
const MANIFEST: &str = include_str!("../../maestro/go.mod");

const MODULE: &str = "require github.com/openshift-online/maestro ";

/// The folder of the pinned version, with both programs in it.
#[derive(Clone, Debug)]
pub struct Maestro {
    folder: PathBuf,
}

impl Maestro {
    /// The programs. `None` means that the test was noted as skipped and should return: they are built with Go, and where
    /// there is no Go, or no module proxy, there are none.
    pub fn find() -> Option<Self> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = set(environment::MAESTRO).or_else(|| {
            let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
            Some(cache.join("pilothouse/maestro"))
        });
        let found = root.map(|root| Self { folder: root.join(version()) });
        let found = found.filter(|found| found.program().is_file() && found.source().is_file());
        if found.is_none() {
            requirement::skipped(&format!("Maestro {}", version()), "cargo xtask maestro");
        }
        found
    }

    /// The program that is server, agent and migration.
    pub fn program(&self) -> PathBuf {
        self.folder.join("maestro")
    }

    /// The program that is a source: it applies, deletes, lists and watches works by Maestro's own client package.
    pub fn source(&self) -> PathBuf {
        self.folder.join("maestro-source")
    }
}

/// The pinned version, as Go writes it.
pub fn version() -> &'static str {
    let rest = MANIFEST.lines().find_map(|line| line.trim().strip_prefix(MODULE));
    rest.and_then(|rest| rest.split_whitespace().next()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_the_one_that_is_built() {
        assert!(version().starts_with("v0.0.0-"), "{:?}", version());
    }
}
