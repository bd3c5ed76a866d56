//! The programs, and how each tells its version.

use std::io;
use std::path::Path;
use std::process::Command;

use super::version::Project;

/// One program.
#[derive(Debug)]
pub(super) struct Program {
    /// Its file name.
    pub(super) name: &'static str,
    /// The Go package of its `main`.
    pub(super) package: &'static str,
    pub(super) project: Project,
    /// What makes it say its version and end.
    ask: &'static [&'static str],
    /// What stands before the version then, in its first line.
    answer: &'static str,
}

/// All that are provided, the quick ones first.
pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "etcd",
        package: "go.etcd.io/etcd/server/v3",
        project: Project::Etcd,
        ask: &["--version"],
        answer: "etcd Version: ",
    },
    Program {
        name: "kubectl",
        package: "k8s.io/kubernetes/cmd/kubectl",
        project: Project::Kubernetes,
        ask: &["version", "--client"],
        answer: "Client Version: ",
    },
    Program {
        name: "kube-apiserver",
        package: "k8s.io/kubernetes/cmd/kube-apiserver",
        project: Project::Kubernetes,
        ask: &["--version"],
        answer: "Kubernetes ",
    },
    Program {
        name: "kube-controller-manager",
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
        project: Project::Kubernetes,
        ask: &["--version"],
        answer: "Kubernetes ",
    },
    Program {
        name: "kube-scheduler",
        package: "k8s.io/kubernetes/cmd/kube-scheduler",
        project: Project::Kubernetes,
        ask: &["--version"],
        answer: "Kubernetes ",
    },
];

impl Program {
    /// Whether the file is this program and has the version. One that cannot be run has none.
    pub(super) fn has_version(&self, file: &Path, wanted: &str) -> bool {
        self.says(file).is_ok_and(|text| {
            let first = text.lines().next().unwrap_or_default();
            let said = first.strip_prefix(self.answer).map(str::trim);
            said.is_some_and(|said| said.trim_start_matches('v') == wanted.trim_start_matches('v'))
        })
    }

    /// What it says when asked for its version.
    pub(super) fn says(&self, file: &Path) -> io::Result<String> {
        let output = Command::new(file).args(self.ask).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
