//! `up --detach`: the same command again, in the background.
//!
//! The child's standard output and error are a pipe for as long as it starts, so that whoever waits sees its progress. When it
//! is ready it says so with a byte that no text contains, and turns both to a log file; the pipe ends. A pipe that ends without
//! that byte belonged to a region that did not start.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, anyhow};
use nix::unistd::{dup2_stderr, dup2_stdout};
use pilothouse_region::DataDir;

use crate::{Failure, Hint};

/// The last byte on the pipe of a region that is ready.
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
        // Ctrl-C in this terminal is not meant for it.
        .process_group(0)
        .spawn()
        .context("the region's process could not be started")?;

    let mut stderr = io::stderr();
    let mut buffer = [0; 4096];
    let mut ready = false;
    loop {
        let text = match reader.read(&mut buffer)? {
            0 => break,
            count => &buffer[..count],
        };
        let text = text.strip_suffix(&[READY]).inspect(|_| ready = true).unwrap_or(text);
        stderr.write_all(text)?;
    }
    if ready {
        writeln!(stderr, "- running in the background; `pilothouse down` stops it")?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait()?;
    Err(anyhow!("the region did not start ({status})")).hint("the lines above say why")
}

/// Turns standard output and error of a region that is ready to its log file.
pub(super) fn leave_terminal(log: &Path) -> Result<(), Failure> {
    let file = File::options().create(true).append(true).open(log)?;
    io::stdout().write_all(&[READY])?;
    io::stdout().flush()?;
    dup2_stdout(&file)?;
    dup2_stderr(&file)?;
    Ok(())
}
