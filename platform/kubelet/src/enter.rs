//! Entering the node's namespaces, before anything else.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl;
use nix::unistd::Uid;

use crate::anchor;
use crate::config::{Config, Namespaces};
use crate::error::Error;
use crate::failure::{Doing, Failure};

/// Proof that this process is in the node's namespaces and the only kubelet of its root folder.
#[derive(Debug)]
pub struct Entered {
    /// Tells one network from a later one at the same place: addresses of pods mean nothing in another.
    pub(crate) network: String,
    _lock: Flock<File>,
}

/// Enters the node's namespaces, making them first where they do not exist. Call it before any thread exists: a process
/// with several cannot change its namespaces.
///
/// # Errors
///
/// When another kubelet runs on the same root folder, or the machine does not let us make namespaces; the error says
/// which setting to change.
pub fn enter(config: &Config) -> Result<Entered, Error> {
    enter_or_fail(config).map_err(|failure| Error::Enter(failure.into()))
}

fn enter_or_fail(config: &Config) -> Result<Entered, Failure> {
    let root = &config.root;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(root)
        .doing(|| format!("making {}", root.display()))?;
    let lock = lock(root)?;
    let network = match config.namespaces {
        Namespaces::Own => {
            let anchor = match anchor::find(root)? {
                Some(anchor) => anchor,
                None => anchor::start(root, &program(config)?)?,
            };
            join(anchor.pid)?;
            format!("{}-{}", anchor.pid, network_inode()?)
        }
        Namespaces::Inherit => network_inode()?.to_string(),
    };
    // Who launches a shim ends at once, and the shim becomes ours: not every machine has a process 1 that waits for what is
    // left to it, and not every one does so soon.
    prctl::set_child_subreaper(true).doing(|| "becoming the parent of pods".into())?;
    Ok(Entered { network, _lock: lock })
}

/// The program that is run for the image `pilothouse`, as shim and as anchor: this very one unless configured.
pub(crate) fn program(config: &Config) -> Result<PathBuf, Failure> {
    match &config.program {
        Some(program) => Ok(program.clone()),
        None => std::env::current_exe().doing(|| "finding our own program".into()),
    }
}

/// Held by the one kubelet of a folder, and by whoever removes its node.
pub(crate) fn lock(root: &Path) -> Result<Flock<File>, Failure> {
    let path = root.join("kubelet.lock");
    let file = File::create(&path).doing(|| format!("opening {}", path.display()))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, error)| error)
        .doing(|| format!("another kubelet runs on {}; stop it first", root.display()))
}

fn join(pid: i32) -> Result<(), Failure> {
    let open = |kind: &str| {
        let path = format!("/proc/{pid}/ns/{kind}");
        File::open(&path).doing(|| format!("opening {path}"))
    };
    let (net, mnt) = (open("net")?, open("mnt")?);
    let user = if Uid::effective().is_root() { None } else { Some(open("user")?) };
    if let Some(user) = user {
        setns(user.as_fd(), CloneFlags::CLONE_NEWUSER)
            .doing(|| "entering the node's user namespace".into())?;
    }
    setns(net.as_fd(), CloneFlags::CLONE_NEWNET).doing(|| "entering the node's network".into())?;
    // Changes the working folder to the root, which is as good as any.
    setns(mnt.as_fd(), CloneFlags::CLONE_NEWNS).doing(|| "entering the node's mounts".into())
}

fn network_inode() -> Result<u64, Failure> {
    Ok(fs::metadata("/proc/self/ns/net").doing(|| "looking at our network namespace".into())?.ino())
}
