//! Helm, which installs our chart as it would anywhere.

use std::path::PathBuf;

use crate::environment;
use crate::original::Original;

const ORIGINAL: Original = Original {
    name: "helm",
    manifest: include_str!("../../helm/go.mod"),
    module: "helm.sh/helm/v3",
    variable: environment::HELM,
};

/// The program. `None` means that the test was noted as skipped and should return: it is built with Go, and where there is no
/// Go, or no module proxy, there is none.
pub fn find() -> Option<PathBuf> {
    Some(ORIGINAL.find(&["helm"])?.join("helm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_the_one_that_is_built() {
        assert!(ORIGINAL.version().starts_with("v3."), "{:?}", ORIGINAL.version());
    }
}
