//! Processes that are found again after a restart.
//!
//! A pid alone is reused by the system sooner or later; together with the moment the process was started it never is.
//! Signals go through a descriptor of the process that is opened first and compared second, so that none can reach a
//! stranger.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use serde::{Deserialize, Serialize};

/// One process, now and for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// In ticks since the machine was started.
    started: u64,
}

// === impl Process ===

impl Process {
    /// The process that has this pid now.
    pub(crate) fn of(pid: i32) -> io::Result<Self> {
        let (_, started) = stat(pid)?;
        Ok(Self { pid, started })
    }

    /// Whether it still runs. One that nobody has waited for yet does not.
    pub(crate) fn is_alive(self) -> bool {
        matches!(stat(self.pid), Ok((state, started)) if started == self.started && !matches!(state, 'Z' | 'X'))
    }

    /// Sends a signal; a process that has ended is no error.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<()> {
        let Some(descriptor) = self.open()? else { return Ok(()) };
        match send(&descriptor, signal) {
            Err(Errno::ESRCH) => Ok(()),
            sent => Ok(sent?),
        }
    }

    /// Returns once it has ended.
    pub(crate) async fn ended(self) -> io::Result<()> {
        let Some(descriptor) = self.open()? else { return Ok(()) };
        let descriptor = crate::descriptor::readable(descriptor)?;
        let _ready = descriptor.readable().await?;
        Ok(())
    }

    /// The same on a plain thread, for at most so long. Answers whether it has ended.
    pub(crate) fn ended_within(self, milliseconds: u16) -> io::Result<bool> {
        let Some(descriptor) = self.open()? else { return Ok(true) };
        let mut descriptors = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
        Ok(poll(&mut descriptors, PollTimeout::from(milliseconds))? > 0)
    }

    /// Lets go of it if it has ended and is a child of this process: until then it is a line in everybody's list of
    /// processes. Those of other parents are left to them.
    pub(crate) fn reap(self) {
        let Ok(descriptor) = open(self.pid) else { return };
        // Opened first and compared second, like everywhere; a child that took over the pid belongs to somebody else here.
        if stat(self.pid).is_ok_and(|(_, started)| started == self.started) {
            let _ = waitid(Id::PIDFd(descriptor.as_fd()), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG);
        }
    }

    /// A descriptor that stands for this process and no other; none once it has ended.
    fn open(self) -> io::Result<Option<OwnedFd>> {
        let descriptor = match open(self.pid) {
            Ok(descriptor) => descriptor,
            Err(Errno::ESRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(self.is_alive().then_some(descriptor))
    }
}

/// State and start of a process. The name in between may contain anything, also spaces and parentheses.
fn stat(pid: i32) -> io::Result<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let strange =
        || io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat is not understood"));
    let (_, fields) = text.rsplit_once(')').ok_or_else(strange)?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next().and_then(|field| field.chars().next()).ok_or_else(strange)?;
    let started = fields.nth(18).and_then(|field| field.parse().ok()).ok_or_else(strange)?;
    Ok((state, started))
}

#[expect(unsafe_code, reason = "there is no wrapper for this system call")]
fn open(pid: i32) -> nix::Result<OwnedFd> {
    // SAFETY: takes two numbers and touches no memory of ours.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let descriptor = i32::try_from(Errno::result(descriptor)?).map_err(|_| Errno::EINVAL)?;
    // SAFETY: the descriptor was made by the call above and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[expect(unsafe_code, reason = "there is no wrapper for this system call")]
fn send(descriptor: &OwnedFd, signal: Signal) -> nix::Result<()> {
    let nothing = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a null pointer asks the kernel to fill in the details itself.
    let sent = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, descriptor.as_raw_fd(), signal as i32, nothing, 0)
    };
    Errno::result(sent).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_is_found_by_pid_and_start_and_signalled_once_found() {
        let mut command = std::process::Command::new("sleep");
        command.arg("600");
        let child = pilothouse_test_support::process::Running::spawn(command).unwrap();
        let process = Process::of(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(process.is_alive());
        let stranger = Process { started: process.started + 1, ..process };
        assert!(!stranger.is_alive());
        stranger.signal(Signal::SIGKILL).unwrap();
        assert!(process.is_alive(), "a signal for another process of that pid must not arrive");

        process.signal(Signal::SIGKILL).unwrap();
        assert!(process.ended_within(10_000).unwrap());
        child.wait().unwrap();
        assert!(!process.is_alive());
        process.signal(Signal::SIGKILL).unwrap();
    }
}
