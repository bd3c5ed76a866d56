//! Building one program with Go.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::{Error, Progress};

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
pub struct Job<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// The Go package of its `main`.
    pub package: &'a str,
    /// The folder of the Go module that pins it.
    pub module: &'a Path,
    /// What the linker is told.
    pub linker_flags: &'a str,
}

/// Builds a program into the file `target`. What Go has compiled before it takes from its own cache.
///
/// # Errors
///
/// If Go is missing, or cannot build it.
pub fn build(job: &Job<'_>, target: &Path, say: Progress<'_>) -> Result<(), Error> {
    run(&["build", "-v"], job, target, say)
}

/// The same with the tests of a package, which become a program as well. Go says nothing while it does that.
pub(crate) fn build_tests(job: &Job<'_>, target: &Path, say: Progress<'_>) -> Result<(), Error> {
    run(&["test", "-c"], job, target, say)
}

fn run(verb: &[&str], job: &Job<'_>, target: &Path, say: Progress<'_>) -> Result<(), Error> {
    let Job { name, version, package, module, linker_flags } = *job;
    let mut command = Command::new("go");
    command
        .args(verb)
        .args(["-mod=readonly", "-trimpath", "-ldflags", linker_flags, "-o"])
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
    let cannot_run = |source| Error::Go { package: package.to_owned(), source };
    let mut child = command.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => {
            Error::NoGo { name: name.to_owned(), version: version.to_owned(), go: go_of(module) }
        }
        _ => cannot_run(source),
    })?;

    let stderr = child.stderr.take().ok_or_else(|| cannot_run(io::ErrorKind::BrokenPipe.into()))?;
    let said = Mutex::new(Said::default());
    let status = thread::scope(|scope| {
        let heart = scope.spawn(|| beat(name, &said, say));
        let read = read(stderr, &said);
        let status = child.wait();
        lock(&said).over = true;
        heart.thread().unpark();
        read.and(status)
    })
    .map_err(cannot_run)?;

    let said = lock(&said);
    if status.success() {
        return Ok(());
    }
    let last = said.lines[said.lines.len().saturating_sub(REPEATED_LINES)..].join("\n");
    Err(Error::Build { package: package.to_owned(), status, said: last })
}

/// The version of Go that a module asks for.
fn go_of(module: &Path) -> String {
    let manifest = fs::read_to_string(module.join("go.mod")).unwrap_or_default();
    let asked = manifest.lines().find_map(|line| line.strip_prefix("go "));
    asked.unwrap_or("of today").trim().to_owned()
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
fn beat(name: &str, said: &Mutex<Said>, say: Progress<'_>) {
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
        let compiled = match said.packages {
            0 => String::new(),
            packages => format!(", {packages} packages, {last}"),
        };
        say(&format!("{name}: {}m{:02}s{compiled}", seconds / 60, seconds % 60));
    }
}

fn lock(said: &Mutex<Said>) -> std::sync::MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}
