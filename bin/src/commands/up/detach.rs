//! `up --detach`: the same command again, in the background.
//!
//! The child's standard output and error are pipes for as long as it starts, so that whoever waits sees its progress, and data goes
//! where data goes. When it is ready it turns both to a log file, and says so on each with a byte that no text contains. A pipe that
//! ends without that byte belonged to a region that did not start.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use anyhow::{Context, anyhow};
use nix::unistd::{dup2_stderr, dup2_stdout, setsid};
use pilothouse_region::DataDir;

use crate::{Failure, Hint};

/// On the pipes of a region that is ready.
const READY: u8 = 0;

/// Starts the region in the background and returns when it is ready, or has failed.
pub(super) fn run(data_dir: &DataDir) -> Result<ExitCode, Failure> {
    std::fs::create_dir_all(data_dir.root())?;
    let log = data_dir.root().join("region.log");
    let (mut data, data_writer) = io::pipe()?;
    let (mut progress, progress_writer) = io::pipe()?;
    let arguments = env::args_os().skip(1).filter(|argument| argument != "--detach");
    let mut child = Command::new(env::current_exe().context("the path of this program is not known")?)
        .args(arguments)
        .arg("--detached")
        .arg(&log)
        .stdin(Stdio::null())
        .stdout(data_writer)
        .stderr(progress_writer)
        .spawn()
        .context("the region's process could not be started")?;

    let mut stderr = io::stderr();
    let ready = thread::scope(|scope| {
        let copied = scope.spawn(|| copy_until_ready(&mut data, &mut io::stdout()));
        let ready = copy_until_ready(&mut progress, &mut stderr);
        // What became of the region is on the other pipe.
        let _ = copied.join();
        ready
    });
    if ready? {
        writeln!(stderr, "- running in the background; `pilothouse down` stops it")?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait()?;
    Err(anyhow!("the region did not start ({status})")).hint("the lines above say why")
}

/// Shows what the region says until it is ready, and answers whether it ever was. What others of it say later is not waited for.
fn copy_until_ready(reader: &mut impl Read, shown: &mut impl Write) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    loop {
        let text = match reader.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => &buffer[..count],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let ready = text.iter().position(|byte| *byte == READY);
        // Whoever closed where it is shown does not want to know, but does want the region.
        let _ = shown.write_all(&text[..ready.unwrap_or(text.len())]);
        if ready.is_some() {
            return Ok(true);
        }
    }
}

/// Leaves the terminal that it was started from: neither its Ctrl-C nor its end is meant for a region in the background.
pub(super) fn leave_session() {
    // Who leads a group already has been started by other means, and has left by those.
    let _ = setsid();
}

/// Whoever waited for a region in the background may be gone by now: it is wanted all the same.
pub(super) fn unless_nobody_waits(written: Result<(), Failure>) -> Result<(), Failure> {
    match written {
        Err(failure) if failure.is_closed_pipe() => Ok(()),
        written => written,
    }
}

/// Turns standard output and error of a region that is ready to its log file.
pub(super) fn leave_terminal(log: &Path) -> Result<(), Failure> {
    let file = File::options().create(true).append(true).open(log)?;
    unless_nobody_waits(io::stdout().flush().map_err(Failure::from))?;
    let pipes = [io::stdout().as_fd().try_clone_to_owned()?, io::stderr().as_fd().try_clone_to_owned()?];
    dup2_stdout(&file)?;
    dup2_stderr(&file)?;
    // Last, so that nothing comes after it. Nobody may be waiting for it any more.
    for pipe in pipes {
        let _ = File::from(pipe).write_all(&[READY]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_is_ready_whatever_is_said_after_the_byte() {
        for (said, ready, shown) in [
            (&b"- up\n\0"[..], true, &b"- up\n"[..]),
            (b"- up\n\0WARN late\n", true, b"- up\n"),
            (b"- failed\n", false, b"- failed\n"),
        ] {
            let mut out = Vec::new();
            assert_eq!(copy_until_ready(&mut &*said, &mut out).unwrap(), ready);
            assert_eq!(out, shown);
        }
    }

    #[test]
    fn region_stays_when_whoever_waited_for_it_is_gone() {
        let failed = |kind: io::ErrorKind| Err(Failure::from(io::Error::from(kind)));
        assert!(unless_nobody_waits(failed(io::ErrorKind::BrokenPipe)).is_ok());
        assert!(unless_nobody_waits(failed(io::ErrorKind::StorageFull)).is_err());
    }
}
