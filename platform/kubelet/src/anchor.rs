//! The process that holds a node's namespaces.
//!
//! Namespaces end with their last process. A kubelet may be killed and started again, its pods must not notice; so the
//! node's namespaces belong to a process that does nothing and is told nothing. Kubelets come, enter, and go.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use nix::sched::CloneFlags;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Uid, dup2_stderr, dup2_stdin, dup2_stdout, setsid};

use crate::failure::{Doing, Failure};
use crate::files::{read_json, write_json};
use crate::namespaces;
use crate::process::Process;

/// The verb of the program under which [`main`] is run.
pub const VERB: &str = "node-anchor";

/// Says that everything is in place.
const READY: &str = "ready";

/// The body of the hidden verb `node-anchor ROOT`. Call it before any thread exists.
///
/// It makes the namespaces, writes down who it is, says `ready`, and waits to be killed.
pub fn main(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    let Some(root) = arguments.into_iter().next() else {
        let _ = writeln!(std::io::stdout(), "usage: {VERB} ROOT");
        return ExitCode::from(2);
    };
    match hold(Path::new(&root)) {
        Ok(never) => match never {},
        Err(failure) => {
            let _ = writeln!(std::io::stdout(), "{}", pilothouse_runtime::Chain(&failure));
            ExitCode::FAILURE
        }
    }
}

fn hold(root: &Path) -> Result<std::convert::Infallible, Failure> {
    // Away from the terminal: Ctrl-C there stops pods in order, or not at all.
    setsid().doing(|| "leaving the session".into())?;
    let user = if Uid::effective().is_root() { CloneFlags::empty() } else { CloneFlags::CLONE_NEWUSER };
    namespaces::leave(user | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?;
    let pid = i32::try_from(std::process::id()).unwrap_or_default();
    let process = Process::of(pid).doing(|| "reading about oneself".into())?;
    write_json(&record(root), &process).doing(|| format!("writing {}", record(root).display()))?;

    writeln!(std::io::stdout(), "{READY}").doing(|| "reporting".into())?;
    let nothing =
        File::options().read(true).write(true).open("/dev/null").doing(|| "opening /dev/null".into())?;
    dup2_stdin(nothing.as_fd()).doing(|| "closing stdin".into())?;
    dup2_stdout(nothing.as_fd()).doing(|| "closing stdout".into())?;
    dup2_stderr(nothing.as_fd()).doing(|| "closing stderr".into())?;
    // Interrupts are for whoever sits at the terminal; only an end by SIGTERM or SIGKILL is meant.
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGINT);
    mask.add(Signal::SIGHUP);
    mask.thread_block().doing(|| "blocking signals".into())?;
    loop {
        nix::unistd::pause();
    }
}

fn record(root: &Path) -> PathBuf {
    root.join("anchor.json")
}

/// The anchor that lives below `root`, if one does.
pub(crate) fn find(root: &Path) -> Result<Option<Process>, Failure> {
    let written: Option<Process> =
        read_json(&record(root)).doing(|| format!("reading {}", record(root).display()))?;
    Ok(written.filter(|process| process.is_alive()))
}

/// Starts one.
pub(crate) fn start(root: &Path, program: &Path) -> Result<Process, Failure> {
    let output = Command::new(program)
        .arg(VERB)
        .arg(root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .stdout(Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            let mut line = String::new();
            if let Some(stdout) = child.stdout.take() {
                std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
            }
            Ok((child, line))
        });
    let (mut child, line) = output.doing(|| format!("starting {} {VERB}", program.display()))?;
    if line.trim_end() != READY {
        let _ = child.wait();
        return Err(Failure::other("the node's namespaces were not made", line.trim_end()));
    }
    find(root)?.ok_or_else(|| Failure::other("the node's anchor ended at once", "it was killed"))
}

/// Forgets an anchor that has ended.
pub(crate) fn forget(root: &Path) {
    // What is not there needs no removing, and what stays is harmless: it names a process that is gone.
    let _ = std::fs::remove_file(record(root));
}
