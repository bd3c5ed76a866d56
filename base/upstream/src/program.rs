//! The programs, and how each tells its version.

use std::io;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// How often a program is tried that was just written.
const BUSY: usize = 50;

/// Where a program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Project {
    Kubernetes,
    Etcd,
}

/// One program.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its file name.
    pub(crate) name: &'static str,
    /// The Go package of its `main`.
    pub(crate) package: &'static str,
    pub(crate) project: Project,
    /// What makes it say its version and end.
    pub(crate) ask: &'static [&'static str],
    /// What stands before the version then, in its first line.
    pub(crate) answer: &'static str,
}

/// All that are provided, the quick ones first.
pub(crate) const PROGRAMS: &[Program] = &[
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

// === impl Project ===

impl Project {
    /// What people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "Kubernetes",
            Self::Etcd => "etcd",
        }
    }
}

// === impl Program ===

impl Program {
    /// Whether the file is this program and has the version. One that cannot be run has none.
    pub(crate) fn has_version(&self, file: &Path, wanted: &str) -> bool {
        let said = self.version_of(file);
        said.is_some_and(|said| said.trim_start_matches('v') == wanted.trim_start_matches('v'))
    }

    /// The version that it says it has.
    pub(crate) fn version_of(&self, file: &Path) -> Option<String> {
        let text = self.says(file).ok()?;
        let said = text.lines().next()?.strip_prefix(self.answer)?.trim();
        Some(said.to_owned()).filter(|said| !said.is_empty())
    }

    /// What it says when asked for its version.
    pub(crate) fn says(&self, file: &Path) -> io::Result<String> {
        let mut attempts = 0;
        loop {
            match Command::new(file).args(self.ask).output() {
                // Whoever started a process while the file was written holds it until that process is another.
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && attempts < BUSY => {
                    attempts += 1;
                    thread::park_timeout(Duration::from_millis(20));
                }
                output => return Ok(String::from_utf8_lossy(&output?.stdout).into_owned()),
            }
        }
    }
}
