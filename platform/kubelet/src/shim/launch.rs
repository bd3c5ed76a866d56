//! From a plain process to process 1 of a pod.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::mount::{MsFlags, mount};
use nix::sched::CloneFlags;
use nix::unistd::{
    ForkResult, chdir, dup2_stderr, dup2_stdin, dup2_stdout, fork, pipe2, sethostname, setsid,
};
use pilothouse_runtime::lower_descriptor_limit;

use super::event_loop::EventLoop;
use super::protocol::Sandbox;
use crate::failure::{Doing, Failure};
use crate::files::{read_json, write_json};
use crate::namespaces;
use crate::process::Process;

/// How a launch went.
pub(super) enum Outcome {
    /// The shim listens. Seen by the process that was started.
    Launched,
    /// Another shim lives in the folder.
    Already,
    /// The pod is over. Seen by the shim.
    Ended,
}

pub(super) fn launch(folder: &Path) -> Result<Outcome, Failure> {
    // From here on every path is relative, and short enough for a socket.
    chdir(folder).doing(|| format!("entering {}", folder.display()))?;
    let lock = File::create("shim.lock").doing(|| "opening shim.lock".into())?;
    let Ok(lock) = Flock::lock(lock, FlockArg::LockExclusiveNonblock) else { return Ok(Outcome::Already) };
    let sandbox: Sandbox = read_json(Path::new("sandbox.json"))
        .doing(|| "reading sandbox.json".into())?
        .ok_or_else(|| Failure::other("reading sandbox.json", "it is missing"))?;
    let _ = fs::remove_file("shim.sock");
    let listener = UnixListener::bind("shim.sock").doing(|| "listening on shim.sock".into())?;
    listener.set_nonblocking(true).doing(|| "listening on shim.sock".into())?;

    setsid().doing(|| "leaving the session".into())?;
    if let Some(group) = &sandbox.cgroup {
        group.join().doing(|| "joining the pod's control group".into())?;
    }
    if let Some(limit) = sandbox.descriptors {
        lower_descriptor_limit(limit).doing(|| "lowering the limit of descriptors".into())?;
    }
    // It is the last to go when memory runs out, for it tells what became of the others. An ordinary user may not ask for that.
    let _ = fs::write("/proc/self/oom_score_adj", "-998");
    let mut flags = CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    flags.set(CloneFlags::CLONE_NEWNET, !sandbox.host_network);
    flags.set(CloneFlags::CLONE_NEWUSER, sandbox.privileged);
    namespaces::leave(flags)?;

    let (go, mut tell) = pipe2(OFlag::O_CLOEXEC)
        .map(|(read, write)| (File::from(read), File::from(write)))
        .doing(|| "making a pipe".into())?;
    match fork_process().doing(|| "starting the pod's first process".into())? {
        ForkResult::Parent { child } => {
            // Written before the shim begins: whoever finds its work also finds its name.
            let process =
                Process::of(child.as_raw()).doing(|| "looking at the pod's first process".into())?;
            write_json(Path::new("shim.json"), &process).doing(|| "writing shim.json".into())?;
            tell.write_all(b"!").doing(|| "releasing the pod's first process".into())?;
            Ok(Outcome::Launched)
        }
        ForkResult::Child => {
            drop(tell);
            be_first(&go, &sandbox, listener)?;
            drop(lock);
            Ok(Outcome::Ended)
        }
    }
}

fn be_first(mut go: &File, sandbox: &Sandbox, listener: UnixListener) -> Result<(), Failure> {
    let mut byte = [0];
    // An end without the byte: the launching process died before anybody could know of us.
    go.read_exact(&mut byte).doing(|| "waiting to be released".into())?;
    detach()?;
    sethostname(&sandbox.hostname).doing(|| "setting the host name".into())?;
    // Processes are told apart by the numbers they have in here.
    mount(
        Some("proc"),
        "/proc",
        Some("proc"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
        None::<&str>,
    )
    .doing(|| "mounting /proc".into())?;
    fs::create_dir_all("root").doing(|| "making the place for private roots".into())?;
    EventLoop::new(listener)?.run()
}

/// Lets go of whatever the launching process was given.
fn detach() -> Result<(), Failure> {
    let nothing = File::open("/dev/null").doing(|| "opening /dev/null".into())?;
    let log =
        File::options().create(true).append(true).open("shim.log").doing(|| "opening shim.log".into())?;
    dup2_stdin(nothing.as_fd()).doing(|| "replacing stdin".into())?;
    dup2_stdout(log.as_fd()).doing(|| "replacing stdout".into())?;
    dup2_stderr(log.as_fd()).doing(|| "replacing stderr".into())
}

#[expect(unsafe_code, reason = "a fork is unsafe in general")]
pub(super) fn fork_process() -> nix::Result<ForkResult> {
    // SAFETY: a shim has one thread, so the copy finds no lock held by a thread that does not exist in it.
    unsafe { fork() }
}
