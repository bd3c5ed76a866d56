//! What the checks look at: the members of the workspace, where they are and what they use.

use std::collections::HashMap;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) package: String,
    /// The folder, if the package is one of ours.
    pub(crate) folder: Option<String>,
    /// Only its tests use it.
    pub(crate) test_only: bool,
}

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
    fn members_know_their_folders_and_uses() {
        let workspace = Workspace::load().unwrap();
        let xtask = workspace.members.iter().find(|member| member.name == "xtask").unwrap();
        assert_eq!(xtask.folder, "tools/xtask");
        let clap = Use { package: "clap".to_owned(), folder: None, test_only: false };
        assert!(xtask.uses.contains(&clap), "{:?}", xtask.uses);

        let store = workspace.members.iter().find(|member| member.folder == "base/store").unwrap();
        let test_support = Use {
            package: "pilothouse-test-support".to_owned(),
            folder: Some("tools/test-support".to_owned()),
            test_only: true,
        };
        assert!(store.uses.contains(&test_support), "{:?}", store.uses);
    }
}
