//! Which versions are pinned.

use anyhow::Context;

/// The versions that `go.mod` requires, each with its `v`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) kubernetes: String,
    pub(super) etcd: String,
}

/// Where a program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Project {
    Kubernetes,
    Etcd,
}

impl Versions {
    /// Reads them from the text of a `go.mod`.
    pub(super) fn of_manifest(text: &str) -> anyhow::Result<Self> {
        let required = |module: &str| {
            text.lines()
                .map(|line| line.trim().trim_start_matches("require "))
                .find_map(|line| line.strip_prefix(module)?.strip_prefix(" v"))
                .and_then(|rest| rest.split_whitespace().next())
                .map(|version| format!("v{version}"))
                .with_context(|| format!("go.mod does not require {module}"))
        };
        let versions =
            Self { kubernetes: required("k8s.io/kubernetes")?, etcd: required("go.etcd.io/etcd/server/v3")? };
        versions.major_and_minor()?;
        Ok(versions)
    }

    /// The version of what comes from `project`.
    pub(super) fn of(&self, project: Project) -> &str {
        match project {
            Project::Kubernetes => &self.kubernetes,
            Project::Etcd => &self.etcd,
        }
    }

    /// What the linker writes into Kubernetes' programs: without it they say v0.0.0, and decide by that.
    pub(super) fn linker_flags(&self) -> anyhow::Result<String> {
        const PACKAGE: &str = "k8s.io/component-base/version";
        let (major, minor) = self.major_and_minor()?;
        Ok(format!(
            "-s -w -X {PACKAGE}.gitVersion={} -X {PACKAGE}.gitMajor={major} -X {PACKAGE}.gitMinor={minor}",
            self.kubernetes
        ))
    }

    fn major_and_minor(&self) -> anyhow::Result<(&str, &str)> {
        let mut parts = self.kubernetes.trim_start_matches('v').split('.');
        parts.next().zip(parts.next()).with_context(|| format!("`{}` is no version", self.kubernetes))
    }
}
