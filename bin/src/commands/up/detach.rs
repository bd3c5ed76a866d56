//! `up --detach`: the same command again, in the background.
//!
//! The child's standard output and error are a pipe for as long as it starts, so that whoever waits sees its progress. When it
//! is ready it turns both to a log file, and says so with a byte that no text contains. A pipe that ends without that byte belonged
//! to a region that did not start.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, anyhow};
use nix::unistd::{dup2_stderr, dup2_stdout, setsid};
use pilothouse_region::DataDir;

use crate::{Failure, Hint};

/// On the pipe of a region that is ready.
const READY: u8 = 0;

/// Starts the region in the background and returns when it is ready, or has failed.
pub(super) fn run(data_dir: &DataDir) -> Result<ExitCode, Failure> {
    std::fs::create_dir_all(data_dir.root())?;
    let log = data_dir.root().join("region.log");
    let (mut reader, writer) = io::pipe()?;
    let arguments = env::args_os().skip(1).filter(|argument| argument != "--detach");
    let mut child = Command::new(env::current_exe().context("the path of this program is not known")?)
        .args(arguments)
        .arg("--detached")
        .arg(&log)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()
        .context("the region's process could not be started")?;

    let mut stderr = io::stderr();
    if copy_until_ready(&mut reader, &mut stderr)? {
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
        // Whoever closed standard error does not want to know, but does want the region.
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
    let mut pipe = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    dup2_stdout(&file)?;
    dup2_stderr(&file)?;
    // Last, so that nothing comes after it. Nobody may be waiting for it any more.
    let _ = pipe.write_all(&[READY]);
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
