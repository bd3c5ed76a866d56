//! The temporary folder of a server.
//!
//! A test process that is killed leaves its folder. The next server to start removes it: each folder holds a file
//! that its process keeps locked, and a lock that can be had belongs to the dead.

use std::env;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::Error;
use super::owner::Owner;

const PREFIX: &str = "pilothouse-postgres-";
const LOCK: &str = "owner.lock";

/// Longest path of a Unix socket that Linux accepts, and the longest name that PostgreSQL gives one.
const LONGEST_SOCKET_PATH: usize = 107;
const SOCKET_NAME: usize = "/.s.PGSQL.65535".len();

/// A folder that exists for as long as this value.
#[derive(Debug)]
pub(super) struct Folder {
    // Removed first, while the lock is still held: nobody else tries to remove it at the same time.
    root: TempDir,
    _lock: File,
}

impl Folder {
    /// Makes a folder in which `owner` has a data folder and a place for sockets.
    pub(super) fn create(owner: &Owner) -> Result<Self, Error> {
        let parent = env::temp_dir();
        remove_leftovers(&parent);
        if owner.drop_to.is_some() {
            check_reachable(&parent, owner)?;
        }

        let root = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in(&parent)
            .map_err(|source| Error::Folder { path: parent, source })?;
        let lock = take_lock(root.path())
            .map_err(|source| Error::Folder { path: root.path().to_owned(), source })?;
        let folder = Self { root, _lock: lock };
        for path in [folder.data(), folder.socket_folder(), folder.work()] {
            give(&path, owner).map_err(|source| Error::Folder { path, source })?;
        }
        Ok(folder)
    }

    pub(super) fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    /// The working directory of the server and its tools.
    pub(super) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.root.path().join("log")
    }

    pub(super) fn socket_folder(&self) -> PathBuf {
        self.root.path().join("socket")
    }

    /// Whether a socket in there has a path that is short enough.
    pub(super) fn has_room_for_socket(&self) -> bool {
        self.socket_folder().as_os_str().len() + SOCKET_NAME <= LONGEST_SOCKET_PATH
    }

    /// The last lines of the server's log.
    pub(super) fn log_tail(&self) -> String {
        const LINES: usize = 30;
        let log = match fs::read(self.log()) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => return format!("(cannot be read: {error})"),
        };
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

fn give(path: &Path, owner: &Owner) -> io::Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o700))?;
    match owner.drop_to {
        Some((uid, gid)) => chown(path, Some(uid.as_raw()), Some(gid.as_raw())),
        None => Ok(()),
    }
}

/// The lock appears under its name only once it is held; otherwise somebody removing leftovers could take it in
/// between, and the folder with it.
fn take_lock(root: &Path) -> io::Result<File> {
    let unnamed = root.join("owner.new");
    let lock = File::create(&unnamed)?;
    lock.lock()?;
    fs::rename(unnamed, root.join(LOCK))?;
    Ok(lock)
}

/// A folder that only root may enter, as `mktemp` makes them, would fail much later and less clearly.
fn check_reachable(parent: &Path, owner: &Owner) -> Result<(), Error> {
    const OTHERS_MAY_ENTER: u32 = 0o001;
    let closed = parent.ancestors().find(|folder| {
        fs::metadata(folder).is_ok_and(|folder| folder.permissions().mode() & OTHERS_MAY_ENTER == 0)
    });
    match closed {
        Some(path) => Err(Error::Unreachable { path: path.to_owned(), user: owner.name.clone() }),
        None => Ok(()),
    }
}

/// Best effort throughout: what cannot be removed now is tried again by the next server.
fn remove_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.filter_map(Result::ok) {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(root: &Path) -> bool {
    let Ok(lock) = File::open(root.join(LOCK)) else { return false };
    if lock.try_lock().is_err() {
        return false;
    }
    // The server of a dead process may still be writing its last page.
    let server = fs::read_to_string(root.join("data/postmaster.pid"))
        .ok()
        .and_then(|file| file.lines().next().map(|id| Path::new("/proc").join(id.trim())));
    !server.is_some_and(|process| process.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ourselves() -> Owner {
        Owner { name: "the current user".to_owned(), drop_to: None }
    }

    #[test]
    fn folder_of_a_live_process_stays() {
        let folder = Folder::create(&ourselves()).unwrap();
        remove_leftovers(&env::temp_dir());
        assert!(folder.data().is_dir());
    }

    #[test]
    fn folder_of_a_dead_process_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let abandoned = parent.path().join(format!("{PREFIX}1-dead"));
        fs::create_dir(&abandoned).unwrap();
        drop(take_lock(&abandoned).unwrap());
        let foreign = parent.path().join("somebody-else");
        fs::create_dir(&foreign).unwrap();
        drop(take_lock(&foreign).unwrap());

        remove_leftovers(parent.path());

        assert!(!abandoned.exists());
        assert!(foreign.exists());
    }

    #[test]
    fn folder_whose_server_still_runs_stays() {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join(format!("{PREFIX}1-stopping"));
        fs::create_dir_all(root.join("data")).unwrap();
        fs::write(root.join("data/postmaster.pid"), format!("{}\n", std::process::id())).unwrap();
        drop(take_lock(&root).unwrap());

        remove_leftovers(parent.path());

        assert!(root.exists());
    }

    #[test]
    fn folder_closed_to_others_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        fs::set_permissions(parent.path(), Permissions::from_mode(0o700)).unwrap();
        let error = check_reachable(parent.path(), &ourselves()).unwrap_err();
        assert!(matches!(error, Error::Unreachable { path, .. } if path == parent.path()));
    }
}
