//! The private root of a container.
//!
//! A tmpfs, the machine's program folders bound read-only, a /dev with the few harmless devices, a /proc of the pod's own
//! processes, the files of /etc that programs cannot do without, and the volumes. Nothing else of the machine is there;
//! not /sys, not a home, not the folder the shim itself works in.
//!
//! Paths from a pod's specification are resolved inside the new root, or inside the volume, by the kernel: a symbolic link a
//! pod has made can lead nowhere else.

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{chdir, pivot_root};

use super::capabilities::{Protection, protect};
use super::protocol::{Container, Mount, PROGRAM_FOLDER};
use crate::failure::{Doing, Failure};

/// Where programs and their libraries are. Links among them are copied as links.
const PROGRAMS: [&str; 8] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "nix"];
/// What programs look for in /etc, as far as it is about programs and not about this machine.
const SHARED_ETC: [&str; 8] = [
    "etc/ld.so.cache",
    "etc/ssl/certs",
    "etc/pki",
    "etc/ca-certificates",
    "etc/alternatives",
    "etc/localtime",
    "etc/mime.types",
    "etc/protocols",
];
/// The pod's own, in its folder.
const OWN_ETC: [&str; 6] = ["hosts", "hostname", "resolv.conf", "passwd", "group", "nsswitch.conf"];
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// What even a root without privileges could change for the whole machine.
const READ_ONLY_PROC: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];
const HIDDEN_PROC: [&str; 6] = ["kcore", "keys", "latency_stats", "timer_list", "sched_debug", "kmsg"];

/// Builds the root below `root` of the working folder and makes it this process's own, for good.
pub(super) fn change(container: &Container) -> Result<(), Failure> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), "root", Some("tmpfs"), flags, Some("mode=0755,size=512m"))
        .doing(|| "mounting a private root".into())?;
    let root = File::open("root").doing(|| "opening the private root".into())?;
    bind_programs(root.as_fd())?;
    make_etc(root.as_fd())?;
    make_devices(root.as_fd())?;
    make_proc(root.as_fd(), container.privileged)?;
    for (folder, mode) in
        [("tmp", 0o1777), ("run", 0o755), ("var/tmp", 0o1777), ("var/lib", 0o755), ("root", 0o700)]
    {
        make_folder(root.as_fd(), folder)?;
        fs::set_permissions(Path::new("root").join(folder), fs::Permissions::from_mode(mode))
            .doing(|| format!("making /{folder}"))?;
    }
    if let Some(program) = &container.program {
        let target =
            Path::new(PROGRAM_FOLDER).join(container.program_name.as_deref().unwrap_or("pilothouse"));
        bind(&open(program)?, root.as_fd(), &target.to_string_lossy(), Kind::File, true)?;
    }
    if let Some(group) = container.cgroup.as_ref().filter(|_| container.privileged) {
        // For a node inside a pod: its own group, and nothing of the machine's.
        for (folder, target) in crate::cgroups::shown_at(group) {
            bind(&open(&folder)?, root.as_fd(), &target, Kind::Folder, false)?;
        }
    }
    for volume in &container.mounts {
        bind_volume(root.as_fd(), volume)?;
    }
    if container.read_only_root {
        let protection = Protection { read_only: true, no_devices: true, recursive: false };
        // The mount, not the folder it hides, is behind a descriptor opened after mounting.
        protect(root.as_fd(), protection).doing(|| "making the root read-only".into())?;
    }
    // Over itself: the old root ends up beneath the new one, and is let go of without ever having a name in it.
    chdir("root").doing(|| "entering the private root".into())?;
    pivot_root(".", ".").doing(|| "changing to the private root".into())?;
    umount2(".", MntFlags::MNT_DETACH).doing(|| "letting go of the machine's root".into())?;
    chdir("/").doing(|| "entering the new root".into())
}

fn bind_programs(root: BorrowedFd<'_>) -> Result<(), Failure> {
    for name in PROGRAMS {
        let path = Path::new("/").join(name);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {
                let leads = fs::read_link(&path).doing(|| format!("reading {}", path.display()))?;
                symlink(leads, Path::new("root").join(name)).doing(|| format!("linking /{name}"))?;
            }
            Ok(found) if found.is_dir() => bind(&open(&path)?, root, name, Kind::Folder, true)?,
            _ => {}
        }
    }
    Ok(())
}

fn make_etc(root: BorrowedFd<'_>) -> Result<(), Failure> {
    make_folder(root, "etc")?;
    for shared in SHARED_ETC {
        let path = Path::new("/").join(shared);
        if let Ok(found) = fs::metadata(&path) {
            let kind = if found.is_dir() { Kind::Folder } else { Kind::File };
            bind(&open(&path)?, root, shared, kind, true)?;
        }
    }
    for name in OWN_ETC {
        let path = Path::new("etc").join(name);
        if path.exists() {
            bind(&open(&path)?, root, &format!("etc/{name}"), Kind::File, true)?;
        }
    }
    Ok(())
}

fn make_devices(root: BorrowedFd<'_>) -> Result<(), Failure> {
    make_folder(root, "dev/shm")?;
    fs::set_permissions("root/dev/shm", fs::Permissions::from_mode(0o1777))
        .doing(|| "making /dev/shm".into())?;
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        if path.exists() {
            let target = resolve(root, &format!("dev/{name}"), Kind::File)?;
            attach(&open(&path)?, &target)?;
        }
    }
    make_folder(root, "dev/pts")?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(Some("devpts"), "root/dev/pts", Some("devpts"), flags, Some("newinstance,ptmxmode=0666,mode=0620"))
        .doing(|| "mounting /dev/pts".into())?;
    symlink("pts/ptmx", "root/dev/ptmx").doing(|| "linking /dev/ptmx".into())?;
    for (name, leads) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")]
    {
        symlink(leads, Path::new("root/dev").join(name)).doing(|| format!("linking /dev/{name}"))?;
    }
    Ok(())
}

fn make_proc(root: BorrowedFd<'_>, privileged: bool) -> Result<(), Failure> {
    make_folder(root, "proc")?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "root/proc", Some("proc"), flags, None::<&str>).doing(|| "mounting /proc".into())?;
    if privileged {
        // A node inside a pod mounts /proc for its own pods, which the kernel allows only to who sees all of it.
        return Ok(());
    }
    for name in READ_ONLY_PROC {
        let path = Path::new("root/proc").join(name);
        if path.exists() {
            bind(&open(&path)?, root, &format!("proc/{name}"), Kind::Existing, true)?;
        }
    }
    for name in HIDDEN_PROC {
        let path = Path::new("root/proc").join(name);
        if path.exists() {
            let target = resolve(root, &format!("proc/{name}"), Kind::Existing)?;
            attach(&open(Path::new("/dev/null"))?, &target)?;
        }
    }
    Ok(())
}

fn bind_volume(root: BorrowedFd<'_>, volume: &Mount) -> Result<(), Failure> {
    let source = open(&volume.source)?;
    let source = match volume.sub_path.as_deref() {
        None | Some("") => source,
        Some(sub_path) => resolve(source.as_fd(), sub_path, Kind::Folder)?,
    };
    let is_folder = fs::metadata(reference(&source))
        .doing(|| format!("looking at the volume for {}", volume.target))?
        .is_dir();
    let kind = if is_folder { Kind::Folder } else { Kind::File };
    bind(&source, root, &volume.target, kind, volume.read_only)
}

/// What a path should lead to, and what is made there if nothing is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Folder,
    File,
    /// Nothing is made.
    Existing,
}

fn bind(
    source: &OwnedFd,
    root: BorrowedFd<'_>,
    target: &str,
    kind: Kind,
    read_only: bool,
) -> Result<(), Failure> {
    let place = resolve(root, target, kind)?;
    attach(source, &place)?;
    // Opened again: a path now leads to what was mounted there.
    let mounted = resolve(root, target, Kind::Existing)?;
    let protection = Protection { read_only, no_devices: true, recursive: true };
    protect(mounted.as_fd(), protection).doing(|| format!("protecting /{}", target.trim_start_matches('/')))
}

fn attach(source: &OwnedFd, target: &OwnedFd) -> Result<(), Failure> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(&reference(source)), &reference(target), None::<&str>, flags, None::<&str>)
        .doing(|| "binding into the private root".into())
}

fn open(path: &Path) -> Result<OwnedFd, Failure> {
    nix::fcntl::open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
        .doing(|| format!("opening {}", path.display()))
}

/// A path by which the kernel finds what a descriptor stands for.
fn reference(descriptor: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
}

fn make_folder(root: BorrowedFd<'_>, path: &str) -> Result<(), Failure> {
    resolve(root, path, Kind::Folder).map(drop)
}

/// Opens `path` inside `root`, as if `root` were the root of everything, and makes what is missing.
fn resolve(root: BorrowedFd<'_>, path: &str, kind: Kind) -> Result<OwnedFd, Failure> {
    let doing = || format!("finding a place for {path}");
    let mut names = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(Failure::other(doing(), "it must not contain `..`"));
            }
        }
    }
    let mut so_far = PathBuf::from(".");
    let mut here = inside(root, &so_far).doing(doing)?;
    for (index, name) in names.iter().enumerate() {
        so_far.push(name);
        here = match inside(root, &so_far) {
            Err(Errno::ENOENT) if kind != Kind::Existing => {
                if index + 1 == names.len() && kind == Kind::File {
                    let flags = OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
                    nix::fcntl::openat(&here, *name, flags, Mode::from_bits_truncate(0o644)).doing(doing)?;
                } else {
                    mkdirat(&here, *name, Mode::from_bits_truncate(0o755)).doing(doing)?;
                }
                inside(root, &so_far).doing(doing)?
            }
            found => found.doing(doing)?,
        };
    }
    Ok(here)
}

fn inside(root: BorrowedFd<'_>, path: &Path) -> nix::Result<OwnedFd> {
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_IN_ROOT);
    openat2(root, path, how)
}
