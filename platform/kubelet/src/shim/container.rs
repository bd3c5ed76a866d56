//! Containers that run.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sched::{CloneFlags, setns};
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, pipe2, setsid};
use pilothouse_runtime::Chain;

use super::execution::become_program;
use super::launch::fork_process;
use super::logs::{Log, Stream};
use super::protocol::Container;
use super::root;
use crate::failure::{Doing, Failure};
use crate::namespaces;

/// The parts of a started container that live in this process.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) specification: Container,
    pub(super) pid: Pid,
    pub(super) output: Output,
}

/// Both streams of a container on their way into its log.
#[derive(Debug)]
pub(super) struct Output {
    log: Log,
    streams: [(Option<OwnedFd>, Stream); 2],
}

/// Starts a container, and returns once its program runs.
pub(super) fn start(specification: Container) -> Result<Running, Failure> {
    let log = Log::open(&specification.name, specification.attempt).doing(|| "opening the log".into())?;
    let (stdout_read, stdout_write) = pipe()?;
    let (stderr_read, stderr_write) = pipe()?;
    let pid = start_process(|| {
        dup2_stdout(stdout_write.as_fd()).doing(|| "replacing stdout".into())?;
        dup2_stderr(stderr_write.as_fd()).doing(|| "replacing stderr".into())?;
        namespaces::leave(CloneFlags::CLONE_NEWNS)?;
        root::change(&specification)?;
        become_program(&specification, &specification.command)
    })?;
    for descriptor in [&stdout_read, &stderr_read] {
        fcntl(descriptor, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).doing(|| "reading output".into())?;
    }
    let streams = [(Some(stdout_read), Stream::new("stdout")), (Some(stderr_read), Stream::new("stderr"))];
    Ok(Running { specification, pid, output: Output { log, streams } })
}

/// Runs a program in the root of a container that runs.
pub(super) fn execute(running: &Running, command: &[String]) -> Result<Pid, Failure> {
    start_process(|| {
        let nothing = File::options().write(true).open("/dev/null").doing(|| "opening /dev/null".into())?;
        dup2_stdout(nothing.as_fd()).doing(|| "replacing stdout".into())?;
        dup2_stderr(nothing.as_fd()).doing(|| "replacing stderr".into())?;
        let path = format!("/proc/{}/ns/mnt", running.pid);
        let namespace = File::open(&path).doing(|| format!("opening {path}"))?;
        setns(namespace.as_fd(), CloneFlags::CLONE_NEWNS).doing(|| "entering the container".into())?;
        become_program(&running.specification, command)
    })
}

/// Forks, and waits until `becoming` has made another program of the new process, or has failed to.
fn start_process(
    becoming: impl FnOnce() -> Result<std::convert::Infallible, Failure>,
) -> Result<Pid, Failure> {
    let (failed, report) = pipe()?;
    match fork_process().doing(|| "starting a process".into())? {
        ForkResult::Child => {
            let failure = match prepare().and_then(|()| becoming()) {
                Ok(never) => match never {},
                Err(failure) => failure,
            };
            // Closed by a successful start; so whatever is in it is a failure.
            let _ = File::from(report).write_all(Chain(&failure).to_string().as_bytes());
            end_process(127)
        }
        ForkResult::Parent { child } => {
            drop(report);
            let mut text = String::new();
            File::from(failed)
                .read_to_string(&mut text)
                .doing(|| "waiting for the program to start".into())?;
            if text.is_empty() {
                return Ok(child);
            }
            let _ = nix::sys::wait::waitpid(child, None);
            Err(Failure { doing: text, source: io::Error::from(io::ErrorKind::Other) })
        }
    }
}

fn prepare() -> Result<(), Failure> {
    // Its own group, so that a signal reaches what it started, too, and nothing else.
    setsid().doing(|| "making a session".into())?;
    let nothing = File::open("/dev/null").doing(|| "opening /dev/null".into())?;
    dup2_stdin(nothing.as_fd()).doing(|| "replacing stdin".into())
}

#[expect(clippy::exit, reason = "a copy of the shim must not go on as one")]
fn end_process(code: i32) -> ! {
    std::process::exit(code)
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Failure> {
    pipe2(OFlag::O_CLOEXEC).doing(|| "making a pipe".into())
}

// === impl Output ===

impl Output {
    /// What there may be something to read from.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        self.streams.iter().filter_map(|(descriptor, _)| descriptor.as_ref())
    }

    /// Whether nobody can write any more.
    pub(super) fn is_over(&self) -> bool {
        self.streams.iter().all(|(descriptor, _)| descriptor.is_none())
    }

    /// Copies what is there to be read, without waiting for more.
    pub(super) fn copy(&mut self) {
        let mut buffer = [0; 8192];
        for (descriptor, stream) in &mut self.streams {
            while let Some(open) = descriptor {
                match nix::unistd::read(&*open, &mut buffer) {
                    Ok(0) => {
                        *descriptor = None;
                        let _ = stream.finish(&mut self.log);
                    }
                    // A full disk loses lines, and stops nobody from running.
                    Ok(count) => drop(stream.take(&buffer[..count], &mut self.log)),
                    Err(nix::errno::Errno::EINTR) => {}
                    Err(nix::errno::Errno::EAGAIN) => break,
                    Err(_) => *descriptor = None,
                }
            }
        }
    }
}
