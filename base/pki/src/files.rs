//! Files that are either the old one or the new one, never half of one.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

/// Who may read a file besides its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Nobody: mode 0600, for keys and whatever contains one.
    OwnerOnly,
    /// Everybody: mode 0644, for certificates.
    Everyone,
}

/// A file that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`", .path.display())]
pub struct FileError {
    /// What was being done, as a verb.
    pub action: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// Replaces `path` with `content` so that a crash at any point leaves the old content or the new one.
///
/// The content is on disk before it takes the name, and the name is on disk before this returns. The directory must
/// exist. The file never has a wider mode than asked for, not even for a moment.
pub fn write_atomically(path: &Path, content: &[u8], visibility: Visibility) -> Result<(), FileError> {
    let failed = |action| move |source| FileError { action, path: path.to_owned(), source };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let temporary = temporary_beside(directory, path).map_err(failed("write"))?;
    let written = write_new(&temporary, content, visibility)
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(failed("write"));
    if written.is_err() {
        // The first error is the one to report; a leftover is only untidy.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed("sync the directory of"))
}

/// The whole file, wiped when dropped, as it may hold a key.
pub(crate) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, FileError> {
    fs::read(path).map(Zeroizing::new).map_err(|source| FileError {
        action: "read",
        path: path.to_owned(),
        source,
    })
}

fn write_new(path: &Path, content: &[u8], visibility: Visibility) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    // Set apart from creation, because there the umask has a say.
    file.set_permissions(Permissions::from_mode(visibility.mode()))?;
    file.write_all(content)?;
    file.sync_all()
}

/// A name nobody else uses, in the same directory, since a rename does not cross file systems.
fn temporary_beside(directory: &Path, path: &Path) -> io::Result<PathBuf> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path does not name a file"))?;
    let mut random = [0_u8; 8];
    SystemRandom::new().fill(&mut random).map_err(|_| io::Error::other("the system has no randomness"))?;
    Ok(directory.join(format!(".{}.{:016x}.tmp", name.to_string_lossy(), u64::from_be_bytes(random))))
}

impl Visibility {
    fn mode(self) -> u32 {
        match self {
            Self::OwnerOnly => 0o600,
            Self::Everyone => 0o644,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_file_gets_its_mode_even_if_an_older_one_was_wider() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tls.key");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        write_atomically(&path, b"new", Visibility::OwnerOnly).unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o600, b"new".to_vec()));
        write_atomically(&path, b"newer", Visibility::Everyone).unwrap();
        assert_eq!(mode(&path), 0o644);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("target");
        fs::create_dir(&path).unwrap(); // a file cannot be renamed over a directory
        let error = write_atomically(&path, b"new", Visibility::Everyone).unwrap_err();
        assert_eq!(error.path, path);
        let names: Vec<_> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["target"]);
    }

    #[test]
    fn an_open_reader_keeps_what_it_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tls.crt");
        write_atomically(&path, b"old", Visibility::Everyone).unwrap();
        let reader = File::open(&path).unwrap();
        write_atomically(&path, b"new", Visibility::Everyone).unwrap();
        assert_eq!(io::read_to_string(reader).unwrap(), "old");
    }

    #[test]
    fn a_path_that_names_no_file_is_an_error() {
        let error = write_atomically(Path::new("/"), b"", Visibility::Everyone).unwrap_err();
        assert_eq!(error.to_string(), "cannot write `/`");
    }
}
