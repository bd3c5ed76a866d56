//! A file that is only added to, and set aside when it has become large.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    file: File,
    size: u64,
    rotate_at: u64,
    keep: u32,
}

impl AuditFile {
    pub(super) fn open(path: PathBuf, rotate_at: u64, keep: u32) -> io::Result<Self> {
        let (file, size) = open(&path)?;
        Ok(Self { path, file, size, rotate_at, keep })
    }

    /// Begins again under the same name, after somebody moved the file away.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.size) = open(&self.path)?;
        Ok(())
    }

    /// Adds whole lines.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.size > 0 && self.size + lines.len() as u64 > self.rotate_at {
            self.rotate()?;
        }
        self.file.write_all(lines)?;
        self.size += lines.len() as u64;
        Ok(())
    }

    /// `FILE.1` is the latest of the former ones.
    fn rotate(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        for number in (1..self.keep).rev() {
            match fs::rename(self.former(number), self.former(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if self.keep > 0 {
            fs::rename(&self.path, self.former(1))?;
        } else {
            fs::remove_file(&self.path)?;
        }
        self.reopen()
    }

    fn former(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

/// Names and addresses of people are in it, so it is for its owner alone.
fn open(path: &PathBuf) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_is_set_aside_and_only_so_many_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let mut file = AuditFile::open(path.clone(), 10, 2).unwrap();
        for line in ["first\n", "second\n", "third\n", "fourth\n"] {
            file.append(line.as_bytes()).unwrap();
        }
        let content = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(content("audit.log"), "fourth\n");
        assert_eq!(content("audit.log.1"), "third\n");
        assert_eq!(content("audit.log.2"), "second\n");
        assert!(!folder.path().join("audit.log.3").exists());
    }

    #[test]
    fn what_was_there_is_added_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        fs::write(&path, "before\n").unwrap();
        AuditFile::open(path.clone(), 1000, 2).unwrap().append(b"after\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before\nafter\n");
    }

    #[test]
    fn moved_file_is_begun_again_when_asked() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("audit.log"), folder.path().join("moved"));
        let mut file = AuditFile::open(path.clone(), 1000, 2).unwrap();
        file.append(b"before\n").unwrap();
        fs::rename(&path, &moved).unwrap();
        file.append(b"still before\n").unwrap();
        file.reopen().unwrap();
        file.append(b"after\n").unwrap();
        assert_eq!(fs::read_to_string(&moved).unwrap(), "before\nstill before\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "after\n");
    }
}
