//! How a verb fails, and how that is told.

use std::io::{self, Write};
use std::process::ExitCode;

/// What to try when nothing better is known.
const DEFAULT_HINT: &str = "`--help` after the command explains what it expects";

/// Why a verb failed, and what to try next.
///
/// Any error becomes one by `?`; [`Hint::hint`] says what to do about it.
#[derive(Debug)]
pub struct Failure {
    error: anyhow::Error,
    hint: Option<String>,
}

/// Adds a hint to an error on its way out.
pub trait Hint<T> {
    /// Says what whoever ran the command can do about the error.
    ///
    /// # Errors
    ///
    /// If `self` is one.
    fn hint(self, hint: impl Into<String>) -> Result<T, Failure>;
}

/// Tells a failure on standard error, and turns the outcome into the process's exit code.
pub fn exit_code(outcome: Result<ExitCode, Failure>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        // `pilothouse … | head` is no failure: the reader has seen enough.
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody is left to tell if standard error is gone, too.
            let _ = failure.tell(&mut io::stderr());
            ExitCode::FAILURE
        }
    }
}

impl Failure {
    /// Whether somebody has stopped reading what is written.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    }

    fn tell(&self, writer: &mut impl Write) -> io::Result<()> {
        writeln!(writer, "error: {}", self.error)?;
        for cause in self.error.chain().skip(1) {
            writeln!(writer, "  caused by: {cause}")?;
        }
        writeln!(writer, "hint: {}", self.hint.as_deref().unwrap_or(DEFAULT_HINT))
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { error: error.into(), hint: None }
    }
}

impl<T, E: Into<anyhow::Error>> Hint<T> for Result<T, E> {
    fn hint(self, hint: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|error| Failure { error: error.into(), hint: Some(hint.into()) })
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    fn told(failure: &Failure) -> String {
        let mut text = Vec::new();
        failure.tell(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn failure_shows_every_cause_once_and_ends_with_the_hint() {
        let outcome: Result<(), _> = Err(anyhow!("no such file")).context("cannot open the store");
        let failure = outcome.hint("is the path right?").unwrap_err();
        assert_eq!(
            told(&failure),
            "error: cannot open the store\n  caused by: no such file\nhint: is the path right?\n"
        );
    }

    #[test]
    fn failure_without_a_hint_points_to_the_help() {
        let failure = Failure::from(anyhow!("it broke"));
        assert_eq!(told(&failure), format!("error: it broke\nhint: {DEFAULT_HINT}\n"));
    }

    #[test]
    fn reader_that_left_is_no_failure() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(exit_code(Err(failure)), ExitCode::SUCCESS);
    }
}
