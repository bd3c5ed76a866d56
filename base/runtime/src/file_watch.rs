//! Waiting for files to change.
//!
//! Whoever holds what is in a file hears of a change from the system, and need not look again and again. What the system tells
//! of are folders, and what a path leads to may be decided in several: a secret or a ConfigMap that Kubernetes mounts is a
//! symbolic link to another, and a change is that other one being replaced. So every entry of a folder is watched that has a
//! say in where the path leads, and found anew after each change.
//!
//! A watch can miss something: a folder may be moved away as a whole, and systems have only so many places for those who want
//! to be told (`fs.inotify.max_user_instances`, often 128 for each user; so this is nothing for processes that there are
//! hundreds of). So it also returns now and then without having been told of anything.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tracing::warn;

/// How often the files may be looked at although nothing was heard.
const REPAIR: Duration = Duration::from_secs(60);
/// As many links as systems follow before they give up.
const LINKS: usize = 40;

/// Tells when files may have changed.
#[derive(Debug)]
pub struct FileWatch {
    files: Vec<PathBuf>,
    /// Absent if the system does not tell.
    told: Option<Told>,
}

struct Told {
    inotify: Inotify,
    /// The same descriptor, to be waited for.
    readable: AsyncFd<OwnedFd>,
    folders: HashMap<WatchDescriptor, Folder>,
}

/// A folder, and what in it has a say.
struct Folder {
    path: PathBuf,
    names: HashSet<OsString>,
}

// === impl FileWatch ===

impl FileWatch {
    /// Watches from now on: a change is told of by [`changed`](Self::changed), also one that comes before that is called.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut watch = Self { files: files.into_iter().collect(), told: None };
        if let Err(error) = watch.renew() {
            warn!(
                %error,
                "changes of files are noticed late: the system does not tell of them; is fs.inotify.max_user_instances large enough?"
            );
        }
        watch
    }

    /// Returns when one of the files may be another than before, and once a minute all the same.
    ///
    /// May be dropped and called again.
    pub async fn changed(&mut self) {
        let told = async {
            match &self.told {
                Some(told) => told.wait().await,
                None => std::future::pending().await,
            }
        };
        if let Ok(Err(error)) = tokio::time::timeout(REPAIR, told).await {
            warn!(%error, "changes of files are noticed late for a while");
            self.told = None;
        }
        // Before anybody looks: what changes after that is told of the next time. Without success the next minute comes.
        let _ = self.renew();
    }

    /// Finds out anew what to watch.
    fn renew(&mut self) -> io::Result<()> {
        let told = match &mut self.told {
            Some(told) => told,
            none => none.insert(Told::new()?),
        };
        told.follow(&self.files);
        Ok(())
    }
}

// === impl Told ===

impl Told {
    fn new() -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let readable = readable(std::os::fd::AsFd::as_fd(&inotify).try_clone_to_owned()?)?;
        Ok(Self { inotify, readable, folders: HashMap::new() })
    }

    fn follow(&mut self, files: &[PathBuf]) {
        let mut folders: HashMap<WatchDescriptor, Folder> = HashMap::new();
        for (path, name) in files.iter().flat_map(|file| entries(file)) {
            let flags = AddWatchFlags::IN_CLOSE_WRITE
                | AddWatchFlags::IN_CREATE
                | AddWatchFlags::IN_MOVED_FROM
                | AddWatchFlags::IN_MOVED_TO
                | AddWatchFlags::IN_DELETE
                | AddWatchFlags::IN_ONLYDIR;
            // A folder that is not there yet is looked for again in a minute.
            let Ok(watched) = self.inotify.add_watch(&path, flags) else { continue };
            let folder = folders.entry(watched).or_insert_with(|| Folder { path, names: HashSet::new() });
            folder.names.insert(name);
        }
        for former in self.folders.keys().filter(|former| !folders.contains_key(former)) {
            // Mostly it has gone with its folder.
            let _ = self.inotify.rm_watch(*former);
        }
        self.folders = folders;
    }

    async fn wait(&self) -> io::Result<()> {
        loop {
            let mut ready = self.readable.readable().await?;
            match self.inotify.read_events() {
                Ok(events) if events.iter().any(|event| self.concerns(event)) => return Ok(()),
                Ok(_) => {}
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn concerns(&self, event: &InotifyEvent) -> bool {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            return true;
        }
        let (Some(folder), Some(name)) = (self.folders.get(&event.wd), &event.name) else { return false };
        // A file that was just made is empty, and is told of again once it has been written; a link or a folder is not.
        let is_empty = || event.mask.contains(AddWatchFlags::IN_CREATE) && is_file(&folder.path, name);
        folder.names.contains(name) && !is_empty()
    }
}

fn is_file(folder: &Path, name: &OsStr) -> bool {
    folder.join(name).symlink_metadata().is_ok_and(|found| found.is_file())
}

#[expect(unsafe_code, reason = "Tokio cannot know that an owned descriptor stays what it is")]
fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor is open, belongs to nobody else, and stays the same until it is dropped.
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    registered.map_err(|error| error.into_parts().1)
}

/// Every entry of a folder that has a say in where a path leads: each symbolic link on the way, and the file.
fn entries(file: &Path) -> Vec<(PathBuf, OsString)> {
    let mut found = Vec::new();
    let Ok(absolute) = std::path::absolute(file) else { return found };
    let mut ahead = steps(&absolute);
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    while let Some(step) = ahead.pop_front() {
        if step == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&step);
        match next.read_link() {
            Ok(target) if links < LINKS => {
                links += 1;
                found.push((at.clone(), step));
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                ahead = steps(&target).into_iter().chain(ahead).collect();
            }
            _ if ahead.is_empty() => found.push((at.clone(), step)),
            // Nothing is there yet, or it leads nowhere.
            _ if !next.exists() => {
                found.push((at.clone(), step));
                break;
            }
            _ => at = next,
        }
    }
    found
}

fn steps(path: &Path) -> VecDeque<OsString> {
    let step = |component: Component<'_>| match component {
        Component::Normal(_) | Component::ParentDir => Some(component.as_os_str().to_owned()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(step).collect()
}

impl fmt::Debug for Told {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Told").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
