//! Making namespaces, and saying what to change where they may not be made.

use std::fs;
use std::io;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid};

use crate::failure::{Doing, Failure};

/// What an administrator may have switched off.
const HINT: &str = "set user.max_user_namespaces above 0, kernel.unprivileged_userns_clone to 1 and \
    kernel.apparmor_restrict_unprivileged_userns to 0 where they exist, or run as root";

/// Leaves the caller's namespaces for fresh ones. With a user namespace among them, the caller becomes its root and nobody
/// else exists in it. The calling process must have one thread.
pub(crate) fn leave(flags: CloneFlags) -> Result<(), Failure> {
    let (user, group) = (Uid::effective(), Gid::effective());
    unshare(flags).map_err(refused)?;
    if flags.contains(CloneFlags::CLONE_NEWUSER) {
        // Groups first: without this the kernel does not let an ordinary user map one.
        fs::write("/proc/self/setgroups", "deny").doing(|| "giving up supplementary groups".into())?;
        fs::write("/proc/self/uid_map", format!("0 {user} 1"))
            .doing(|| "becoming root of a user namespace".into())?;
        fs::write("/proc/self/gid_map", format!("0 {group} 1"))
            .doing(|| "becoming root of a user namespace".into())?;
    }
    if flags.contains(CloneFlags::CLONE_NEWNS) {
        // Nothing mounted here may show up anywhere else.
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
            .doing(|| "making mounts private".into())?;
    }
    Ok(())
}

fn refused(error: Errno) -> Failure {
    let doing = match error {
        Errno::EPERM | Errno::ENOSPC | Errno::EINVAL | Errno::EACCES => {
            format!("this machine does not let us make namespaces; {HINT}")
        }
        _ => "making namespaces".to_owned(),
    };
    Failure { doing, source: io::Error::from(error) }
}
