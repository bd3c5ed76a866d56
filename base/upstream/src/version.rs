//! Which versions there are.

use std::fs;
use std::path::Path;

use crate::Error;
use crate::program::{PROGRAMS, Project};

/// The Go modules that pin them: `go.mod` and `go.sum` of each, the oldest first.
const MODULES: [(&str, &str); 2] = [
    (
        include_str!("../../../tools/upstream/1.33/go.mod"),
        include_str!("../../../tools/upstream/1.33/go.sum"),
    ),
    (
        include_str!("../../../tools/upstream/1.34/go.mod"),
        include_str!("../../../tools/upstream/1.34/go.sum"),
    ),
];

/// A version of Kubernetes whose programs can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// `v1.34.1`.
    kubernetes: String,
    /// `v3.6.4`.
    etcd: String,
    /// The `34` of it.
    minor: u32,
    manifest: &'static str,
    sums: &'static str,
}

// === impl Version ===

impl Version {
    /// All of them, the oldest first.
    pub fn all() -> Vec<Self> {
        MODULES.iter().filter_map(|(manifest, sums)| Self::of_module(manifest, sums)).collect()
    }

    /// The one that somebody means by `1.34`, `1.34.1` or `v1.34.1`; the newest if nobody says.
    ///
    /// # Errors
    ///
    /// If it is none of those that can be had.
    pub fn find(asked: Option<&str>) -> Result<Self, Error> {
        let all = Self::all();
        let known =
            || all.iter().map(|version| version.number().to_owned()).collect::<Vec<_>>().join(" and ");
        let unknown =
            || Error::UnknownVersion { asked: asked.unwrap_or("newest").to_owned(), known: known() };
        let found = match asked {
            None => all.last(),
            Some(asked) => {
                let asked = asked.trim_start_matches('v');
                all.iter()
                    .find(|version| asked == version.number() || asked == format!("1.{}", version.minor))
            }
        };
        found.cloned().ok_or_else(unknown)
    }

    /// Of Kubernetes, such as `v1.34.1`.
    pub fn kubernetes(&self) -> &str {
        &self.kubernetes
    }

    /// Of Kubernetes, such as `1.34.1`.
    pub fn number(&self) -> &str {
        self.kubernetes.trim_start_matches('v')
    }

    /// The `34` of 1.34.1.
    pub fn minor(&self) -> u32 {
        self.minor
    }

    /// Of the etcd that goes with it, such as `v3.6.4`.
    pub fn etcd(&self) -> &str {
        &self.etcd
    }

    /// The programs that are missing, or of another version, in the folder of this version below `root`.
    pub fn missing_in(&self, root: &Path) -> Vec<&'static str> {
        let folder = root.join(&self.kubernetes);
        let missing = PROGRAMS
            .iter()
            .filter(|program| !program.has_version(&folder.join(program.name), self.of(program.project)));
        missing.map(|program| program.name).collect()
    }

    /// The version of what comes from `project`.
    pub(crate) fn of(&self, project: Project) -> &str {
        match project {
            Project::Kubernetes => &self.kubernetes,
            Project::Etcd => &self.etcd,
        }
    }

    /// What the linker writes into Kubernetes' programs: without it they say v0.0.0, and decide by that.
    pub(crate) fn linker_flags(&self) -> String {
        const PACKAGE: &str = "k8s.io/component-base/version";
        format!(
            "-s -w -X {PACKAGE}.gitVersion={} -X {PACKAGE}.gitMajor=1 -X {PACKAGE}.gitMinor={}",
            self.kubernetes, self.minor
        )
    }

    /// The `go.mod` that pins it.
    #[cfg(test)]
    pub(crate) fn manifest(&self) -> &str {
        self.manifest
    }

    /// Writes the Go module that pins it.
    pub(crate) fn write_module(&self, folder: &Path) -> Result<(), Error> {
        for (name, text) in [("go.mod", self.manifest), ("go.sum", self.sums)] {
            let file = folder.join(name);
            fs::write(&file, text).map_err(Error::file("write", &file))?;
        }
        Ok(())
    }

    fn of_module(manifest: &'static str, sums: &'static str) -> Option<Self> {
        let required = |module: &str| {
            manifest
                .lines()
                .map(|line| line.trim().trim_start_matches("require "))
                .find_map(|line| line.strip_prefix(module)?.strip_prefix(" v"))
                .and_then(|rest| rest.split_whitespace().next())
                .map(|version| format!("v{version}"))
        };
        let kubernetes = required("k8s.io/kubernetes")?;
        let minor = kubernetes.split('.').nth(1)?.parse().ok()?;
        Some(Self { etcd: required("go.etcd.io/etcd/server/v3")?, kubernetes, minor, manifest, sums })
    }
}
