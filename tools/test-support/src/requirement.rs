//! What happens to a test whose machine lacks a program it needs.
//!
//! `cargo test --workspace` has to work on a bare machine, so a missing program skips the test, with a line that
//! says what to install. A run that promises everything must not skip: with
//! [`PILOTHOUSE_TEST_REQUIRE`](environment::REQUIRE) set the same test fails.

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;

use crate::environment;

/// A program that a test needs, and how to get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// File name of the program.
    pub program: &'static str,
    /// Debian package that brings it.
    pub package: &'static str,
}

/// What to do about a requirement that is not met.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    require: bool,
    skips: Option<PathBuf>,
}

impl Requirement {
    /// The program `program`, brought by the Debian package `package`.
    pub const fn new(program: &'static str, package: &'static str) -> Self {
        Self { program, package }
    }

    /// Finds the program in `PATH`. `None` means that the test was noted as skipped and should return.
    ///
    /// # Panics
    ///
    /// If the program is missing and the environment asks for everything to run.
    pub fn find(self) -> Option<PathBuf> {
        let found = search_path(self.program);
        if found.is_none() {
            self.missing();
        }
        found
    }

    /// Reports the program as missing, for callers that look in more places than `PATH`.
    ///
    /// # Panics
    ///
    /// If the environment asks for everything to run.
    pub fn missing(self) {
        missing(self.program, &format!("apt-get install {}", self.package));
    }
}

/// Reports something as missing that no package brings. `remedy` is the command that does.
///
/// # Panics
///
/// If the environment asks for everything to run.
pub(crate) fn missing(what: &str, remedy: &str) {
    // Straight to the stream: the harness captures only the print macros, and a skip must be seen.
    Policy::from_environment().missing(what, remedy, &current_test(), &mut io::stderr());
}

/// Notes a test as skipped, whatever the environment asks for: what it needs is more than a run of all tests brings.
pub fn skipped(what: &str, remedy: &str) {
    let policy = Policy { require: false, ..Policy::from_environment() };
    policy.missing(what, remedy, &current_test(), &mut io::stderr());
}

impl Policy {
    /// The policy that the environment asks for.
    pub fn from_environment() -> Self {
        Self {
            require: environment::is_set(environment::REQUIRE),
            skips: env::var_os(environment::SKIPS).filter(|path| !path.is_empty()).map(PathBuf::from),
        }
    }

    fn missing(&self, what: &str, remedy: &str, test: &str, console: &mut dyn Write) {
        let line = format!("skipped: {test} needs {what} ({remedy})");
        assert!(
            !self.require,
            "{test} needs {what} ({remedy}), and {} forbids skipping it",
            environment::REQUIRE
        );
        // Where nobody reads the console there is nobody to tell that writing failed.
        let _ = writeln!(console, "{line}");
        if let Some(path) = &self.skips {
            append(path, &line).unwrap_or_else(|error| {
                panic!("cannot note a skipped test in {}: {error}", path.display());
            });
        }
    }
}

/// Finds a program in `PATH`.
pub fn search_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

pub(crate) fn append(path: &Path, line: &str) -> io::Result<()> {
    // One write of one short line in append mode: test processes do not interleave.
    File::options().create(true).append(true).open(path)?.write_all(format!("{line}\n").as_bytes())
}

/// The harness names a test's thread after the test.
fn current_test() -> String {
    thread::current().name().unwrap_or("a test").to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ABSENT: &str = "no-such-program";
    const REMEDY: &str = "apt-get install no-such-package";

    #[test]
    fn missing_program_is_noted_as_a_skip() {
        let folder = tempfile::tempdir().unwrap();
        let skips = folder.path().join("skips");
        let policy = Policy { require: false, skips: Some(skips.clone()) };

        let mut console = Vec::new();

        policy.missing(ABSENT, REMEDY, "first", &mut console);
        policy.missing(ABSENT, REMEDY, "second", &mut console);

        let noted = fs::read_to_string(skips).unwrap();
        assert_eq!(
            noted,
            "skipped: first needs no-such-program (apt-get install no-such-package)\n\
             skipped: second needs no-such-program (apt-get install no-such-package)\n"
        );
        assert_eq!(String::from_utf8(console).unwrap(), noted);
    }

    #[test]
    #[should_panic(expected = "needs no-such-program (apt-get install no-such-package)")]
    fn missing_program_fails_where_everything_is_required() {
        Policy { require: true, skips: None }.missing(ABSENT, REMEDY, "a test", &mut Vec::new());
    }

    #[test]
    fn present_program_is_found() {
        assert!(Requirement::new("sh", "dash").find().is_some());
    }
}
