//! Secrets by reference.
//!
//! A configuration says where a secret is, never what it is: so it can be dumped, logged and checked in.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

/// The path of a file that holds a secret.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretFile(PathBuf);

/// A secret cannot be read. Says where it should be, never what was found.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("cannot read the secret in `{}`", .path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing in the file.
    #[error("the secret in `{}` is empty", .0.display())]
    Empty(PathBuf),
}

// === impl SecretFile ===

impl SecretFile {
    /// A reference to a secret.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads it, without the line's end that editors leave. Read it again when it is needed again: whoever
    /// rotates a secret replaces the file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or holds nothing.
    pub fn read(&self) -> Result<SecretString, SecretError> {
        let mut text = fs::read_to_string(&self.0)
            .map_err(|error| SecretError::Read { path: self.0.clone(), source: error })?;
        text.truncate(text.trim_end_matches(['\r', '\n']).len());
        if text.is_empty() {
            return Err(SecretError::Empty(self.0.clone()));
        }
        Ok(SecretString::from(text))
    }
}

impl fmt::Debug for SecretFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SecretFile({})", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn file(content: &str) -> (tempfile::TempDir, SecretFile) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        fs::write(&path, content).unwrap();
        (directory, SecretFile::new(path))
    }

    #[test]
    fn secret_is_read_without_its_line_end() {
        let (_directory, file) = file("hunter two \r\n");
        assert_eq!(file.read().unwrap().expose_secret(), "hunter two ");
    }

    #[test]
    fn empty_and_absent_secrets_are_refused_by_path() {
        let (directory, file) = file("\n");
        assert!(matches!(file.read(), Err(SecretError::Empty(path)) if path == file.path()));
        let absent = SecretFile::new(directory.path().join("absent"));
        assert!(matches!(absent.read(), Err(SecretError::Read { path, .. }) if path == absent.path()));
    }

    #[test]
    fn only_the_path_is_ever_shown() {
        let (_directory, file) = file("hunter2");
        let shown = format!("{file:?} {} {:?}", serde_json::to_string(&file).unwrap(), file.read());
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("password"), "{shown}");
    }
}
