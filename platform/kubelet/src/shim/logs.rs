//! What containers print, line by line, in the form other container runtimes use:
//! `2026-01-02T03:04:05.678901234Z stdout F the line`, with `P` for a part of a line that was too long.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pilothouse_runtime::Clock;

/// Longer lines are written in parts.
const LONGEST: usize = 16 * 1024;
/// A file of this size is put aside, and the one put aside before is dropped.
const LARGEST_FILE: u64 = 10 << 20;

/// The log of one attempt of one container.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    written: u64,
    clock: Clock,
}

/// One of the two streams into a log.
#[derive(Debug)]
pub(crate) struct Stream {
    name: &'static str,
    pending: Vec<u8>,
}

impl Log {
    /// Below the pod's folder.
    pub(crate) fn open(pod: &Path, container: &str, attempt: u32) -> io::Result<Self> {
        let folder = pod.join("logs").join(container);
        fs::create_dir_all(&folder)?;
        if let Some(old) = attempt.checked_sub(2) {
            // Only the attempt before can be asked for.
            let _ = fs::remove_file(folder.join(format!("{old}.log")));
            let _ = fs::remove_file(folder.join(format!("{old}.log.1")));
        }
        let path = folder.join(format!("{attempt}.log"));
        let file = File::options().create(true).append(true).open(&path)?;
        let written = file.metadata()?.len();
        Ok(Self { path, file, written, clock: Clock::system() })
    }

    fn line(&mut self, stream: &str, tag: char, line: &[u8]) -> io::Result<()> {
        let mut entry = format!("{:.9} {stream} {tag} ", self.clock.now()).into_bytes();
        entry.extend_from_slice(line);
        entry.push(b'\n');
        self.file.write_all(&entry)?;
        self.written += entry.len() as u64;
        if self.written > LARGEST_FILE {
            fs::rename(&self.path, self.path.with_extension("log.1"))?;
            self.file = File::options().create(true).append(true).open(&self.path)?;
            self.written = 0;
        }
        Ok(())
    }
}

impl Stream {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, pending: Vec::new() }
    }

    /// Takes what was read, and writes every line that is complete.
    pub(crate) fn take(&mut self, bytes: &[u8], log: &mut Log) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        let mut begin = 0;
        loop {
            let rest = &self.pending[begin..];
            if let Some(end) = rest.iter().take(LONGEST).position(|byte| *byte == b'\n') {
                log.line(self.name, 'F', &rest[..end])?;
                begin += end + 1;
            } else if rest.len() >= LONGEST {
                log.line(self.name, 'P', &rest[..LONGEST])?;
                begin += LONGEST;
            } else {
                break;
            }
        }
        self.pending.drain(..begin);
        Ok(())
    }

    /// Writes what is left at the end, though no newline came.
    pub(super) fn finish(&mut self, log: &mut Log) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let rest = std::mem::take(&mut self.pending);
        log.line(self.name, 'F', &rest)
    }
}
