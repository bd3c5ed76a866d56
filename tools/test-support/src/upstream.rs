//! Kubernetes' own programs, for tests that hold ours against them.
//!
//! `cargo xtask upstream` puts them into the cache, in a folder of their version. Nothing else is looked at: a test that
//! compares must know what it compares with.

use std::env;
use std::path::PathBuf;

use crate::environment;
use crate::requirement;

mod cluster;

pub use cluster::{Cluster, Setup};

/// Where the version is pinned that tests compare with.
const MANIFEST: &str = include_str!("../../upstream/1.34/go.mod");
/// The same of the one before.
const PREVIOUS: &str = include_str!("../../upstream/1.33/go.mod");

const MODULE: &str = "k8s.io/kubernetes v";

const PROGRAMS: [&str; 5] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// The tests, as `cargo xtask conformance` builds them.
const CONFORMANCE: &str = "e2e.test";

/// The folder of the pinned version, with every program in it.
#[derive(Clone, Debug)]
pub struct Upstream {
    folder: PathBuf,
}

impl Upstream {
    /// The programs. `None` means that the test was noted as skipped and should return: `./test` does not build them, which
    /// takes a quarter of an hour, so it counts the test as skipped where they are not there.
    pub fn find() -> Option<Self> {
        Self::of(version())
    }

    /// The same of the version before, which clusters are upgraded from.
    pub fn find_previous() -> Option<Self> {
        Self::of(previous_version())
    }

    fn of(version: &str) -> Option<Self> {
        let found = root().and_then(|root| complete(root.join(format!("v{version}"))));
        if found.is_none() {
            let remedy = format!("cargo xtask upstream --version {version}");
            requirement::skipped(&format!("Kubernetes {version}"), &remedy);
        }
        found.map(|folder| Self { folder })
    }

    /// Kubernetes' own tests of whole clusters, beside the programs. `None` means that the test was noted as skipped and
    /// should return, as with the programs.
    pub fn conformance(&self) -> Option<PathBuf> {
        let found = Some(self.program(CONFORMANCE)).filter(|file| file.is_file());
        if found.is_none() {
            requirement::skipped(
                &format!("the tests of Kubernetes {}", version()),
                "cargo xtask conformance",
            );
        }
        found
    }

    /// The path of a program: `etcd`, `kube-apiserver`, `kube-controller-manager`, `kube-scheduler` or `kubectl`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// The pinned version of Kubernetes, such as `1.34.1`.
pub fn version() -> &'static str {
    pinned(MANIFEST)
}

/// The pinned version of the minor before, such as `1.33.13`.
pub fn previous_version() -> &'static str {
    pinned(PREVIOUS)
}

fn pinned(manifest: &'static str) -> &'static str {
    let rest = manifest.lines().find_map(|line| line.trim().strip_prefix(MODULE));
    rest.and_then(|rest| rest.split_whitespace().next()).unwrap_or_default()
}

/// Where `cargo xtask upstream` keeps them, one folder per version.
fn root() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set(environment::UPSTREAM).or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
        Some(cache.join("pilothouse/upstream"))
    })
}

fn complete(folder: PathBuf) -> Option<PathBuf> {
    PROGRAMS.iter().all(|program| folder.join(program).is_file()).then_some(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn version_is_the_one_that_is_built() {
        assert!(version().starts_with("1."), "{:?}", version());
        assert!(MANIFEST.contains(&format!("{MODULE}{}\n", version())));
        assert!(previous_version().starts_with("1."), "{:?}", previous_version());
    }

    #[test]
    fn folder_counts_only_with_every_program() {
        let folder = tempfile::tempdir().unwrap();
        let found = || complete(folder.path().to_owned());
        for program in PROGRAMS {
            assert_eq!(found(), None, "{program} is missing");
            fs::write(folder.path().join(program), "").unwrap();
        }
        assert_eq!(found(), Some(folder.path().to_owned()));
    }
}
