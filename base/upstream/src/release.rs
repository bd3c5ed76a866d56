//! Files of official releases, and the sums that they must have.
//!
//! A sum is written down here when it has been seen in several public places; what has none is not downloaded. A mirror may
//! serve the files, and nobody has to trust it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use aws_lc_rs::digest::{Algorithm, Context, SHA256, SHA512};

use crate::program::{Program, Project};

/// A file of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseFile {
    pub(crate) project: Project,
    /// Such as `v1.34.1`.
    pub(crate) version: String,
    /// As Go calls it, such as `amd64`.
    pub(crate) architecture: String,
    pub(crate) sum: Sum,
}

/// What the bytes of a file add up to, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    Sha256(String),
    Sha512(String),
}

/// What is known: project, version, architecture and the sum, of the kind that its project publishes.
const PINNED: &[(Project, &str, &str, &str)] = &[
    (
        Project::Kubernetes,
        "v1.34.1",
        "amd64",
        "8fd1e779f4d0188592644e234a6e5b728b9000a2afeb9d8da25131a5a4e54718\
         bb46c4d521c62e26ea971e32745529fbb001c4f011ef2c54091cb5e81b4b90f2",
    ),
    (
        Project::Kubernetes,
        "v1.34.1",
        "arm64",
        "77f68803b34f710c9623f388452494075ca9bb38567e7878176ec12a6d2971d2\
         feba381e99462dc8c6e83ff5064dcffcaa7df736b67208880f5e90d71a831c2c",
    ),
    (Project::Etcd, "v3.6.4", "amd64", "4d5f3101daa534e45ccaf3eec8d21c19b7222db377bcfd5e5a9144155238c105"),
    (Project::Etcd, "v3.6.4", "arm64", "323421fa279f4f3d7da4c7f2dfa17d9e49529cb2b4cdf40899a7416bccdde42d"),
    (Project::Etcd, "v3.5.21", "amd64", "adddda4b06718e68671ffabff2f8cee48488ba61ad82900e639d108f2148501c"),
    (Project::Etcd, "v3.5.21", "arm64", "95bf6918623a097c0385b96f139d90248614485e781ec9bee4768dbb6c79c53f"),
];

/// All files whose sums are known.
pub(crate) fn pinned() -> Vec<ReleaseFile> {
    let file = |&(project, version, architecture, sum): &(Project, &str, &str, &str)| ReleaseFile {
        project,
        version: version.to_owned(),
        architecture: architecture.to_owned(),
        sum: match project {
            Project::Kubernetes => Sum::Sha512(sum.to_owned()),
            Project::Etcd => Sum::Sha256(sum.to_owned()),
        },
    };
    PINNED.iter().map(file).collect()
}

/// What this machine is called in names of files, if programs for it are released at all.
pub(crate) fn architecture() -> &'static str {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "amd64",
        ("linux", "aarch64") => "arm64",
        (_, other) => other,
    }
}

// === impl ReleaseFile ===

impl ReleaseFile {
    /// What it is called.
    pub(crate) fn name(&self) -> String {
        let Self { version, architecture, .. } = self;
        match self.project {
            Project::Kubernetes => format!("kubernetes-server-linux-{architecture}.tar.gz"),
            Project::Etcd => format!("etcd-{version}-linux-{architecture}.tar.gz"),
        }
    }

    /// What it is called where files of several versions are.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.version, self.name())
    }

    /// Below what its project keeps it.
    pub(crate) fn home(&self) -> &'static str {
        match self.project {
            Project::Kubernetes => "https://dl.k8s.io",
            Project::Etcd => "https://github.com/etcd-io/etcd/releases/download",
        }
    }

    /// Where a program is in it.
    pub(crate) fn member(&self, program: &Program) -> String {
        let Self { version, architecture, .. } = self;
        match self.project {
            Project::Kubernetes => format!("kubernetes/server/bin/{}", program.name),
            Project::Etcd => format!("etcd-{version}-linux-{architecture}/{}", program.name),
        }
    }
}

// === impl Sum ===

impl Sum {
    /// What the sum is called.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "SHA-256",
            Self::Sha512(_) => "SHA-512",
        }
    }

    /// The digits.
    pub(crate) fn digits(&self) -> &str {
        match self {
            Self::Sha256(digits) | Self::Sha512(digits) => digits,
        }
    }

    /// The digits that a file has.
    pub(crate) fn of(&self, file: &mut File) -> io::Result<String> {
        file.seek(SeekFrom::Start(0))?;
        let mut context = Context::new(self.algorithm());
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                length => context.update(&buffer[..length]),
            }
        }
        Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn algorithm(&self) -> &'static Algorithm {
        match self {
            Self::Sha256(_) => &SHA256,
            Self::Sha512(_) => &SHA512,
        }
    }
}
