//! Programs of others of a pinned version, which `cargo xtask NAME` builds with Go and puts into the cache.

use std::env;
use std::path::PathBuf;

use crate::requirement;

/// Where one of them is pinned, and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Original {
    /// What the folder in the cache and the verb of `xtask` are called.
    pub(crate) name: &'static str,
    /// The `go.mod` that pins it.
    pub(crate) manifest: &'static str,
    /// The module of it that counts.
    pub(crate) module: &'static str,
    /// The variable that names another folder than the cache's.
    pub(crate) variable: &'static str,
}

impl Original {
    /// The folder of the pinned version, if all `programs` are in it. `None` means that the test was noted as skipped and
    /// should return: where there is no Go, or no module proxy, there are none.
    pub(crate) fn find(self, programs: &[&str]) -> Option<PathBuf> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = set(self.variable).or_else(|| {
            let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
            Some(cache.join("pilothouse").join(self.name))
        });
        let found = root.map(|root| root.join(self.version()));
        let found = found.filter(|folder| programs.iter().all(|program| folder.join(program).is_file()));
        if found.is_none() {
            let remedy = format!("cargo xtask {}", self.name);
            requirement::skipped(&format!("{} {}", self.name, self.version()), &remedy);
        }
        found
    }

    /// The pinned version, as Go writes it.
    pub(crate) fn version(self) -> &'static str {
        let rest = self.manifest.lines().find_map(|line| {
            line.trim().strip_prefix("require ")?.strip_prefix(self.module)?.strip_prefix(' ')
        });
        rest.and_then(|rest| rest.split_whitespace().next()).unwrap_or_default()
    }
}
