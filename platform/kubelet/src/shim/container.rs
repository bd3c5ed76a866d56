//! Containers that run.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, setns};
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, pipe2, setsid};
use pilothouse_runtime::Chain;

use super::execution::become_program;
use super::launch::fork_process;
use super::logs::Log;
use super::output::Output;
use super::protocol::{Container, Input};
use super::{root, terminal};
use crate::cgroups::Group;
use crate::failure::{Doing, Failure};
use crate::namespaces;

/// The parts of a started container that live in this process.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) specification: Container,
    pub(super) pid: Pid,
    pub(super) output: Output,
    /// Where it reads from, seen from here.
    pub(super) input: Option<OwnedFd>,
    /// What the kernel had ended in its group before it began.
    kills: u64,
}

// === impl Running ===

impl Running {
    /// Whether the kernel has ended something in it for want of memory.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        kills(&self.specification) > self.kills
    }
}

fn kills(specification: &Container) -> u64 {
    specification.cgroup.as_ref().map(Group::kills).unwrap_or_default()
}

/// Goes where it is limited, before anything is done that counts.
fn take_limits(specification: &Container) -> Result<(), Failure> {
    if let Some(group) = &specification.cgroup {
        group.join().doing(|| "joining the container's control group".into())?;
    }
    if let Some(expendability) = specification.expendability {
        // More may be asked of everybody; less only as far as the pod's first process has it.
        let _ = fs::write("/proc/self/oom_score_adj", expendability.to_string());
    }
    Ok(())
}

/// What a program run inside a container talks to.
pub(super) enum Talk {
    Streams {
        stdin: Option<OwnedFd>,
        stdout: Option<OwnedFd>,
        stderr: Option<OwnedFd>,
    },
    /// A terminal of its own, whose other end goes out through this socket.
    Terminal(OwnedFd),
}

/// Starts a container, and returns once its program runs.
pub(super) fn start(specification: Container) -> Result<Running, Failure> {
    let log = Log::open(std::path::Path::new("."), &specification.name, specification.attempt)
        .doing(|| "opening the log".into())?;
    if specification.terminal {
        return start_at_terminal(specification, log);
    }
    let input = (specification.input != Input::None).then(pipe).transpose()?;
    let (stdin_read, input) = input.map_or((None, None), |(read, write)| (Some(read), Some(write)));
    let (stdout_read, stdout_write) = pipe()?;
    let (stderr_read, stderr_write) = pipe()?;
    let kills = kills(&specification);
    let pid = start_process(|| {
        if let Some(stdin) = &stdin_read {
            dup2_stdin(stdin.as_fd()).doing(|| "replacing stdin".into())?;
        }
        dup2_stdout(stdout_write.as_fd()).doing(|| "replacing stdout".into())?;
        dup2_stderr(stderr_write.as_fd()).doing(|| "replacing stderr".into())?;
        take_limits(&specification)?;
        namespaces::leave(CloneFlags::CLONE_NEWNS)?;
        root::change(&specification)?;
        become_program(&specification, &specification.command)
    })?;
    let output = Output::new(log, stdout_read, Some(stderr_read))?;
    Ok(Running { specification, pid, output, input, kills })
}

fn start_at_terminal(specification: Container, log: Log) -> Result<Running, Failure> {
    let kills = kills(&specification);
    let (ours, theirs) = UnixStream::pair().doing(|| "making a socket".into())?;
    let pid = start_process(|| {
        take_limits(&specification)?;
        namespaces::leave(CloneFlags::CLONE_NEWNS)?;
        root::change(&specification)?;
        terminal::sit_down(&specification, theirs.as_fd())?;
        become_program(&specification, &specification.command)
    })?;
    let controller = terminal::receive(ours.as_fd()).doing(|| "taking the terminal".into())?;
    // Also without input: whoever is attached may change the size of the window.
    let input = Some(controller.try_clone().doing(|| "taking the terminal".into())?);
    Ok(Running { specification, pid, output: Output::new(log, controller, None)?, input, kills })
}

/// Runs a program in the root of a container that runs.
pub(super) fn execute(running: &Running, command: &[String], talk: Talk) -> Result<Pid, Failure> {
    let mut specification = running.specification.clone();
    if matches!(talk, Talk::Terminal(_)) && !specification.environment.iter().any(|(name, _)| name == "TERM")
    {
        specification.environment.push(("TERM".to_owned(), "xterm".to_owned()));
    }
    start_process(|| {
        let nothing = File::options().write(true).open("/dev/null").doing(|| "opening /dev/null".into())?;
        take_limits(&specification)?;
        let path = format!("/proc/{}/ns/mnt", running.pid);
        let namespace = File::open(&path).doing(|| format!("opening {path}"))?;
        setns(namespace.as_fd(), CloneFlags::CLONE_NEWNS).doing(|| "entering the container".into())?;
        match &talk {
            Talk::Terminal(out) => terminal::sit_down(&specification, out.as_fd())?,
            Talk::Streams { stdin, stdout, stderr } => {
                if let Some(stdin) = stdin {
                    dup2_stdin(stdin.as_fd()).doing(|| "replacing stdin".into())?;
                }
                let nothing = OwnedFd::from(nothing);
                dup2_stdout(stdout.as_ref().unwrap_or(&nothing)).doing(|| "replacing stdout".into())?;
                dup2_stderr(stderr.as_ref().unwrap_or(&nothing)).doing(|| "replacing stderr".into())?;
            }
        }
        become_program(&specification, command)
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
