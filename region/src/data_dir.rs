//! The folder that a region lives in.
//!
//! ```text
//! lock            held by the process that runs the region
//! process.json    which process that is, and whether it is stopping
//! ports.json      ports that the system chose
//! keys            key file of the stores
//! pki/            the region's authority and what it issued
//! issuer/         the issuer of tokens for callers of the resource provider
//! stores/         one database per service
//! node/           the embedded node: its pods, logs, volumes and sockets
//! residents/      logs of the services, as the management cluster shows them
//! clusters/       kubeconfig files of hosted clusters, for as long as there are these clusters
//! downloads/      the archive of `hcp`, once somebody asked for it
//! kubeconfig      of the management cluster
//! endpoints.json  where everything is, while it runs
//! ```
//!
//! The folder itself is locked by whoever stops the region: that takes no file, which would belong to whoever was first.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use pilothouse_runtime::Chain;
use serde::{Deserialize, Serialize};
use tracing::warn;

/// The folder of a region, whether it runs or not.
#[derive(Clone, Debug)]
pub struct DataDir {
    root: PathBuf,
}

/// Proof that no other process runs this region.
#[derive(Debug)]
pub struct Held {
    data_dir: DataDir,
    process: RunningProcess,
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
    /// Whether it was asked to stop, and is about to end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopping: bool,
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

    /// Makes the folder, and takes it for this process, which runs the region from now on. Where everything was before is
    /// forgotten: it may be elsewhere soon.
    ///
    /// # Errors
    ///
    /// If another process has it, or the system refuses.
    pub fn hold(&self) -> Result<Held, DataDirError> {
        let held = self.hold_at_rest()?;
        held.write().map_err(|source| self.unusable(source))?;
        held.forget_endpoints();
        Ok(held)
    }

    /// The same for somebody who looks after a region that does not run.
    pub(crate) fn hold_at_rest(&self) -> Result<Held, DataDirError> {
        let unusable = |source| self.unusable(source);
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
        let started = look(id).map(|(_, started)| started).unwrap_or_default();
        let process = RunningProcess { id, started, stopping: false };
        Ok(Held { data_dir: self.clone(), process, _lock: lock })
    }

    /// Takes the right to stop the region, if nobody has it at present: a second signal would cut the stop short that the first
    /// one began.
    pub(crate) fn hold_stop(&self) -> Result<Option<Flock<File>>, DataDirError> {
        let folder = File::open(&self.root).map_err(|source| self.unusable(source))?;
        match Flock::lock(folder, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(lock)),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(self.unusable(error.into())),
        }
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

    /// The names that there is such a file of.
    pub(crate) fn with_kubeconfig(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.clusters())? {
            let file = entry?.file_name();
            names.extend(file.to_str().and_then(|file| file.strip_suffix(".kubeconfig")).map(str::to_owned));
        }
        Ok(names)
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

    fn unusable(&self, source: io::Error) -> DataDirError {
        DataDirError::Unusable { path: self.root.display().to_string(), source }
    }
}

// === impl Held ===

impl Held {
    /// Lets everybody know that the region is about to end.
    pub(crate) fn note_stopping(&mut self) {
        self.process.stopping = true;
        if let Err(error) = self.write() {
            warn!(error = %Chain(&error), "others cannot see that the region is stopping");
        }
    }

    /// Nothing is there any more where it was.
    pub(crate) fn forget_endpoints(&self) {
        // Most often there is no such file.
        let _ = fs::remove_file(self.data_dir.endpoints_file());
    }

    /// Whole, and at once. The disk is not waited for: what it says is over when the machine goes down, and whoever does not see
    /// yet that the region stops would tell it a second time.
    fn write(&self) -> io::Result<()> {
        let text = serde_json::to_vec(&self.process).unwrap_or_default();
        let file = self.data_dir.process_file();
        // Nobody else writes it: the lock is held.
        let temporary = file.with_extension("tmp");
        fs::write(&temporary, text)?;
        // Apart from creation, because there the umask has a say.
        fs::set_permissions(&temporary, Permissions::from_mode(0o644))?;
        fs::rename(temporary, file)
    }
}

// === impl RunningProcess ===

impl RunningProcess {
    /// Whether it still runs: the same process, not another one that was given its id. One that nobody has waited for yet does
    /// not.
    pub fn is_alive(self) -> bool {
        look(self.id).is_some_and(|(state, started)| started == self.started && !matches!(state, 'Z' | 'X'))
    }
}

/// The state of a process, and when it began, in the kernel's ticks.
fn look(id: i32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program is in parentheses and may contain anything, also parentheses.
    let (_, after) = text.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
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
    fn everybody_sees_that_a_region_stops() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        let mut held = data_dir.hold().unwrap();
        assert!(!data_dir.running().unwrap().stopping);
        held.note_stopping();
        assert!(data_dir.running().unwrap().stopping);
        assert!(!folder.path().join("process.tmp").exists());
    }

    #[test]
    fn region_is_stopped_by_one_at_a_time_who_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        let stopping = data_dir.hold_stop().unwrap();
        assert!(stopping.is_some() && data_dir.hold_stop().unwrap().is_none());
        drop(stopping);
        assert!(data_dir.hold_stop().unwrap().is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn process_that_only_has_the_id_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        let id = i32::try_from(std::process::id()).unwrap();
        let this = RunningProcess { id, started: 1, stopping: false };
        fs::write(data_dir.process_file(), serde_json::to_vec(&this).unwrap()).unwrap();
        assert_eq!(data_dir.running(), None);
    }
}
