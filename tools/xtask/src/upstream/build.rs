//! Building one program with Go.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;

/// How often a line says that it still goes on.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How much of Go's own words an error repeats.
const REPEATED_LINES: usize = 20;

/// What Go has said so far. With `-v` it names each package that it compiles, and anything else is a complaint.
#[derive(Debug, Default)]
struct Said {
    packages: usize,
    lines: Vec<String>,
    over: bool,
}

/// A program to build.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    /// What it is called.
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    /// The Go package of its `main`.
    pub(crate) package: &'a str,
    /// The folder of the Go module that pins it.
    pub(crate) module: &'a Path,
    pub(crate) linker_flags: &'a str,
}

/// Builds a program into the file `target`. What Go has compiled before it takes from its own cache.
pub(crate) fn build(job: &Job<'_>, target: &Path) -> anyhow::Result<()> {
    let Job { name, version, package, module, linker_flags } = *job;
    say(&format!("{name}: building {version} (the first time this takes minutes)"));
    let mut command = Command::new("go");
    command
        .args(["build", "-v", "-mod=readonly", "-trimpath", "-ldflags", linker_flags, "-o"])
        .arg(target)
        .arg(package)
        .current_dir(module)
        // One file that runs anywhere, and no C compiler needed.
        .env("CGO_ENABLED", "0")
        // The module stands alone, whatever encloses the workspace.
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow::anyhow!(
            "`go` is missing: install what `go.mod` in {} asks for, to build {name} {version}",
            module.display()
        ),
        _ => anyhow::Error::new(error).context("cannot run `go`"),
    })?;

    let stderr = child.stderr.take().context("Go's words are captured")?;
    let said = Mutex::new(Said::default());
    let status = thread::scope(|scope| {
        let heart = scope.spawn(|| beat(name, &said));
        let read = read(stderr, &said);
        let status = child.wait();
        lock(&said).over = true;
        heart.thread().unpark();
        read.and(status)
    })
    .context("cannot follow `go build`")?;

    let said = lock(&said);
    anyhow::ensure!(
        status.success(),
        "`go build {package}` failed with {status}:\n{}\n(run again to go on where it stopped)",
        said.lines[said.lines.len().saturating_sub(REPEATED_LINES)..].join("\n")
    );
    Ok(())
}

fn read(stderr: ChildStderr, said: &Mutex<Said>) -> io::Result<()> {
    for line in BufReader::new(stderr).lines() {
        let line = line?;
        let mut said = lock(said);
        // A package's path holds no blank; neither downloads nor complaints are so short.
        said.packages += usize::from(!line.contains(' '));
        said.lines.push(line);
    }
    Ok(())
}

/// Says now and then how far it is, until it is over.
fn beat(name: &str, said: &Mutex<Said>) {
    let mut beats = 0;
    loop {
        thread::park_timeout(HEARTBEAT);
        let said = lock(said);
        if said.over {
            return;
        }
        beats += 1;
        let last = said.lines.last().map_or("", String::as_str);
        let seconds = HEARTBEAT.as_secs() * beats;
        say(&format!("{name}: {}m{:02}s, {} packages, {last}", seconds / 60, seconds % 60, said.packages));
    }
}

fn lock(said: &Mutex<Said>) -> std::sync::MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

fn say(line: &str) {
    // Progress that nobody can read is nobody's loss.
    let _ = writeln!(io::stderr(), "{line}");
}
