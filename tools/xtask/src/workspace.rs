//! What the checks look at: the members of the workspace, where they are and what they use.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use cargo_metadata::{DependencyKind, MetadataCommand};

/// The workspace, as far as the checks care.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) members: Vec<Member>,
}

/// One of our crates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Where it lives, relative to the root and with forward slashes: `base/store`.
    pub(crate) folder: String,
    pub(crate) uses: Vec<Use>,
    pub(crate) manifest: toml::Table,
}

/// One line of a crate's dependencies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) package: String,
    /// The folder, if the package is one of ours.
    pub(crate) folder: Option<String>,
    /// Only its tests use it.
    pub(crate) test_only: bool,
    /// Only its feature `testing` turns it on.
    pub(crate) for_testing: bool,
    /// It turns on the other's feature `testing`.
    pub(crate) wants_testing: bool,
}

/// The feature that builds what only tests of other crates use.
const TESTING: &str = "testing";

impl Workspace {
    /// The workspace around the current directory.
    pub(crate) fn load() -> anyhow::Result<Self> {
        let metadata = MetadataCommand::new().no_deps().exec()?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        let folders = metadata
            .packages
            .iter()
            .map(|package| {
                let folder = package.manifest_path.parent().context("a manifest lies in a folder")?;
                let folder = folder.strip_prefix(&metadata.workspace_root)?;
                Ok((package.name.to_string(), folder.as_str().to_owned()))
            })
            .collect::<anyhow::Result<HashMap<_, _>>>()?;

        let mut members = metadata
            .packages
            .iter()
            .map(|package| {
                let text = fs::read_to_string(&package.manifest_path)?;
                let uses = package.dependencies.iter().map(|dependency| Use {
                    package: dependency.name.clone(),
                    folder: folders.get(&dependency.name).filter(|_| dependency.path.is_some()).cloned(),
                    test_only: dependency.kind == DependencyKind::Development,
                    for_testing: dependency.optional && only_testing(&package.features, &dependency.name),
                    wants_testing: dependency.features.iter().any(|feature| feature == TESTING),
                });
                Ok(Member {
                    name: package.name.to_string(),
                    folder: folders[package.name.as_str()].clone(),
                    uses: uses.collect(),
                    manifest: text.parse().with_context(|| package.manifest_path.to_string())?,
                })
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        members.sort_by(|left, right| left.folder.cmp(&right.folder));
        Ok(Self { root, members })
    }

    /// Reads a file of the workspace.
    pub(crate) fn read(&self, file: &str) -> anyhow::Result<String> {
        fs::read_to_string(self.root.join(file)).with_context(|| format!("cannot read {file}"))
    }
}

/// Whether the feature `testing`, and no other, turns a dependency on.
fn only_testing(features: &BTreeMap<String, Vec<String>>, dependency: &str) -> bool {
    let turns_on = |switched: &String| {
        let name = switched.strip_prefix("dep:").unwrap_or(switched);
        name == dependency || name.split_once('/').is_some_and(|(name, _)| name == dependency)
    };
    let mut by = features.iter().filter(|(name, switched)| {
        // Whatever turns on `testing` turns on all of it.
        switched.iter().any(turns_on) || (*name != TESTING && switched.iter().any(|other| other == TESTING))
    });
    by.next().is_some_and(|(name, _)| name == TESTING) && by.next().is_none()
}

impl Member {
    /// The path of its manifest, relative to the root.
    pub(crate) fn manifest_path(&self) -> String {
        Path::new(&self.folder).join("Cargo.toml").display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_feature_turns_on_is_not_for_testing() {
        let features = |list: &[(&str, &[&str])]| -> BTreeMap<String, Vec<String>> {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            list.iter().map(|(name, switched)| ((*name).to_owned(), owned(switched))).collect()
        };
        assert!(only_testing(&features(&[("testing", &["dep:axum"]), ("fast", &["dep:nix"])]), "axum"));
        assert!(only_testing(&features(&[("testing", &["axum/json"])]), "axum"));
        assert!(!only_testing(&features(&[("testing", &["dep:tokio"])]), "axum"));
        assert!(!only_testing(&features(&[("testing", &["dep:axum"]), ("serve", &["dep:axum"])]), "axum"));
        assert!(!only_testing(&features(&[("testing", &["dep:axum"]), ("default", &["testing"])]), "axum"));
        assert!(!only_testing(&features(&[("testing", &["dep:axum"]), ("wide", &["dep:axum"])]), "axum"));
    }

    #[test]
    fn members_know_their_folders_and_uses() {
        let workspace = Workspace::load().unwrap();
        let xtask = workspace.members.iter().find(|member| member.name == "xtask").unwrap();
        assert_eq!(xtask.folder, "tools/xtask");
        let clap = Use { package: "clap".to_owned(), ..Use::default() };
        assert!(xtask.uses.contains(&clap), "{:?}", xtask.uses);

        let store = workspace.members.iter().find(|member| member.folder == "base/store").unwrap();
        let test_support = Use {
            package: "pilothouse-test-support".to_owned(),
            folder: Some("tools/test-support".to_owned()),
            test_only: true,
            ..Use::default()
        };
        assert!(store.uses.contains(&test_support), "{:?}", store.uses);

        let contract =
            workspace.members.iter().find(|member| member.folder == "services/clusters-service/api");
        let for_testing = |package: &str| {
            let uses = &contract.unwrap().uses;
            uses.iter().find(|used| used.package == package && !used.test_only).unwrap().for_testing
        };
        assert!(for_testing("axum"));
        assert!(!for_testing("serde"));
    }
}
