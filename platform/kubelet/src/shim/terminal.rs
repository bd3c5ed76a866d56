//! Terminals of containers, made by the processes that will sit at them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::pty::{posix_openpt, ptsname_r, unlockpt};
use nix::unistd::{Gid, Uid, dup2_stderr, dup2_stdin, dup2_stdout, fchown};

use super::protocol::Container;
use crate::descriptor;
use crate::failure::{Doing, Failure};

/// Sits down at a new terminal, and hands its other end out through a socket. The process must be the first of its session and
/// already be in the root whose terminal this shall be.
pub(super) fn sit_down(container: &Container, out: BorrowedFd<'_>) -> Result<(), Failure> {
    let controller = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)
        .doing(|| "opening a terminal".into())?;
    unlockpt(&controller).doing(|| "unlocking the terminal".into())?;
    let path = ptsname_r(&controller).doing(|| "naming the terminal".into())?;
    let terminal = File::options().read(true).write(true).open(&path).doing(|| format!("opening {path}"))?;
    // A program that opens the terminal by its name may no longer be who it is now.
    if let Some(user) = container.user.filter(|user| *user != 0) {
        let _ = fchown(&terminal, Some(Uid::from_raw(user)), container.group.map(Gid::from_raw));
    }
    take_control(terminal.as_fd()).doing(|| "taking control of the terminal".into())?;
    descriptor::send(out, b"!", &[controller.as_fd()]).doing(|| "handing out the terminal".into())?;
    dup2_stdin(terminal.as_fd()).doing(|| "replacing stdin".into())?;
    dup2_stdout(terminal.as_fd()).doing(|| "replacing stdout".into())?;
    dup2_stderr(terminal.as_fd()).doing(|| "replacing stderr".into())
}

/// Takes the terminal that somebody sat down at.
pub(super) fn receive(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut descriptors = Vec::new();
    descriptor::receive(socket, &mut [0], &mut descriptors)?;
    descriptors.pop().ok_or_else(|| io::Error::other("no terminal came"))
}

#[expect(unsafe_code, reason = "there is no wrapper for this request")]
fn take_control(terminal: BorrowedFd<'_>) -> nix::Result<()> {
    // SAFETY: takes a number and touches no memory of ours.
    Errno::result(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) }).map(drop)
}
