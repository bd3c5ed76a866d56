//! The original Maestro, for tests in which one side is ours and the other is not.

use std::path::PathBuf;

use crate::environment;
use crate::original::Original;

const ORIGINAL: Original = Original {
    name: "maestro",
    manifest: include_str!("../../maestro/go.mod"),
    module: "github.com/openshift-online/maestro",
    variable: environment::MAESTRO,
};

/// The folder of the pinned version, with both programs in it.
#[derive(Clone, Debug)]
pub struct Maestro {
    folder: PathBuf,
}

impl Maestro {
    /// The programs. `None` means that the test was noted as skipped and should return: they are built with Go, and where
    /// there is no Go, or no module proxy, there are none.
    pub fn find() -> Option<Self> {
        Some(Self { folder: ORIGINAL.find(&["maestro", "maestro-source"])? })
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
    ORIGINAL.version()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_the_one_that_is_built() {
        assert!(version().starts_with("v0.0.0-"), "{:?}", version());
    }
}
