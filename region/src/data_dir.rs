//! The folder that a region lives in.
//!
//! ```text
//! lock            held by the process that runs the region
//! process.json    which process that is
//! ports.json      ports that the system chose
//! keys            key file of the stores
//! pki/            the region's authority and what it issued
//! issuer/         the issuer of tokens for callers of the resource provider
//! stores/         one database per service
//! node/           the embedded node: its pods, logs, volumes and sockets
//! residents/      logs of the services, as the management cluster shows them
//! clusters/       kubeconfig files of hosted clusters
//! downloads/      the archive of `hcp`, once somebody asked for it
//! kubeconfig      of the management cluster
//! endpoints.json  where everything is, while it runs
//! ```

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use pilothouse_pki::{FileError, Visibility, write_atomically};
use serde::{Deserialize, Serialize};

/// The folder of a region, whether it runs or not.
#[derive(Clone, Debug)]
pub struct DataDir {
    root: PathBuf,
}

/// Proof that no other process runs this region.
#[derive(Debug)]
pub struct Held {
    _lock: Flock<File>,
}

/// The process that runs a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningProcess {
    /// Its id, which the system gives to others later.
    pub id: i32,
    /// When it began, in the kernel's ticks: with the id it names one process for ever.
    pub started: u64,
}

/// Why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process runs this region.
    #[error("the region in `{path}` is already running{}", .by.map_or(String::new(), |by| format!(" (process {})", by.id)))]
    Taken {
        /// The folder.
        path: String,
        /// Who has it.
        by: Option<RunningProcess>,
    },
    /// The system refused.
    #[error("the data directory `{path}` cannot be used")]
    Unusable {
        /// The folder.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file in it could not be written.
    #[error("the data directory cannot be written")]
    File(#[from] FileError),
}

// === impl DataDir ===

impl DataDir {
    /// The folder at this path.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the folder, and takes it for this process.
    ///
    /// # Errors
    ///
    /// If another process has it, or the system refuses.
    pub fn hold(&self) -> Result<Held, DataDirError> {
        let unusable = |source| DataDirError::Unusable { path: self.root.display().to_string(), source };
        for folder in [self.root.clone(), self.stores(), self.clusters(), self.node()] {
            fs::create_dir_all(&folder).map_err(unusable)?;
        }
        // Keys, tokens and other people's clusters are in there.
        fs::set_permissions(&self.root, Permissions::from_mode(0o700)).map_err(unusable)?;
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.root.join("lock"))
            .map_err(unusable)?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => {
                let path = self.root.display().to_string();
                return Err(DataDirError::Taken { path, by: self.running() });
            }
            Err((_, error)) => return Err(unusable(error.into())),
        };
        let id = i32::try_from(std::process::id()).unwrap_or_default();
        let this = RunningProcess { id, started: started(id).unwrap_or_default() };
        let text = serde_json::to_vec(&this).unwrap_or_default();
        write_atomically(&self.process_file(), &text, Visibility::Everyone)?;
        Ok(Held { _lock: lock })
    }

    /// The process that runs this region, if one does.
    pub fn running(&self) -> Option<RunningProcess> {
        let text = fs::read(self.process_file()).ok()?;
        let process: RunningProcess = serde_json::from_slice(&text).ok()?;
        process.is_alive().then_some(process)
    }

    /// Where ports that the system chose are kept.
    pub fn ports_file(&self) -> PathBuf {
        self.root.join("ports.json")
    }

    /// Where the endpoints of a running region are.
    pub fn endpoints_file(&self) -> PathBuf {
        self.root.join("endpoints.json")
    }

    /// The kubeconfig of the management cluster.
    pub fn management_kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// The kubeconfig of a hosted cluster.
    pub fn cluster_kubeconfig(&self, cluster: &str) -> PathBuf {
        self.clusters().join(format!("{cluster}.kubeconfig"))
    }

    /// The embedded node's folder.
    pub fn node(&self) -> PathBuf {
        self.root.join("node")
    }

    pub(crate) fn residents(&self) -> PathBuf {
        self.root.join("residents")
    }

    /// The folder of the region's own issuer of tokens.
    pub fn issuer(&self) -> PathBuf {
        self.root.join("issuer")
    }

    pub(crate) fn downloads(&self) -> PathBuf {
        self.root.join("downloads")
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.root.join("keys")
    }

    pub(crate) fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    pub(crate) fn store(&self, name: &str) -> PathBuf {
        self.stores().join(format!("{name}.db"))
    }

    fn stores(&self) -> PathBuf {
        self.root.join("stores")
    }

    fn clusters(&self) -> PathBuf {
        self.root.join("clusters")
    }

    fn process_file(&self) -> PathBuf {
        self.root.join("process.json")
    }
}

// === impl RunningProcess ===

impl RunningProcess {
    /// Whether it still runs: the same process, not another one that was given its id.
    pub fn is_alive(self) -> bool {
        started(self.id).is_some_and(|started| started == self.started)
    }
}

/// When a process began, in the kernel's ticks.
fn started(id: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program is in parentheses and may contain anything, also parentheses.
    let (_, after) = text.rsplit_once(')')?;
    after.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_held_by_one_at_a_time_and_says_by_whom() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        assert_eq!(data_dir.running(), None);
        let held = data_dir.hold().unwrap();
        let error = data_dir.hold().unwrap_err();
        let this = i32::try_from(std::process::id()).unwrap();
        assert!(matches!(error, DataDirError::Taken { by: Some(by), .. } if by.id == this), "{error}");
        drop(held);
        data_dir.hold().unwrap();
    }

    #[test]
    fn process_that_only_has_the_id_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        let this = RunningProcess { id: i32::try_from(std::process::id()).unwrap(), started: 1 };
        fs::write(data_dir.process_file(), serde_json::to_vec(&this).unwrap()).unwrap();
        assert_eq!(data_dir.running(), None);
    }
}
