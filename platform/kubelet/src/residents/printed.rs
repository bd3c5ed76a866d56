//! What a resident prints, kept as the log of a container is.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::logs;
use crate::shim::{Log, Stream};

/// The log of one life of a resident: since this process began.
#[derive(Debug)]
pub struct Printed {
    path: PathBuf,
    attempt: u32,
    inner: Mutex<(Log, Stream)>,
}

// === impl Printed ===

impl Printed {
    /// Begins the log of another life. That of the life before can still be read.
    pub(super) fn open(folder: &Path, container: &str) -> io::Result<Self> {
        let attempt = next_attempt(&folder.join("logs").join(container))?;
        let log = Log::open(folder, container, attempt)?;
        let path = logs::path(folder, container, attempt);
        Ok(Self { path, attempt, inner: Mutex::new((log, Stream::new("stdout"))) })
    }

    /// Adds lines, each with its end.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn add(&self, lines: &[u8]) -> io::Result<()> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (log, stream) = &mut *inner;
        stream.take(lines, log)
    }

    pub(super) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The log of this life, or of the one before.
    pub(super) fn path(&self, previous: bool) -> Option<PathBuf> {
        let attempt = if previous { self.attempt.checked_sub(1)? } else { self.attempt };
        let path = self.path.with_file_name(format!("{attempt}.log"));
        path.exists().then_some(path)
    }
}

/// One more than the last life had.
fn next_attempt(folder: &Path) -> io::Result<u32> {
    let entries = match folder.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let attempts =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.split_once('.')?.0.parse::<u32>().ok());
    Ok(attempts.max().map_or(0, |last| last.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: Option<PathBuf>) -> String {
        let text = std::fs::read_to_string(path.unwrap()).unwrap();
        text.lines()
            .map(|line| String::from_utf8_lossy(logs::text_of(line.as_bytes())).into_owned())
            .collect()
    }

    #[test]
    fn each_life_has_a_log_and_so_has_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        for life in 0..3_u32 {
            let printed = Printed::open(folder.path(), "maestro-agent").unwrap();
            printed.add(format!("life {life}\n").as_bytes()).unwrap();
            assert_eq!(printed.attempt(), life);
            assert_eq!(text(printed.path(false)), format!("life {life}"));
            match life.checked_sub(1) {
                None => assert_eq!(printed.path(true), None),
                Some(before) => assert_eq!(text(printed.path(true)), format!("life {before}")),
            }
        }
        let kept = folder.path().join("logs/maestro-agent").read_dir().unwrap().count();
        assert_eq!(kept, 2, "older lives are forgotten");
    }
}
