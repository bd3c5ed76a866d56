//! One writing process a database file.
//!
//! SQLite itself would let several processes take turns; then revisions cached here, wake-ups and leases by
//! this process's clock would be wrong. The lock lies on a file beside the database, belongs to the open file
//! description, and so goes with the process however it ends. The file itself stays.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::Error;

/// Held as long as the database is open for writing.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    pub(super) fn take(database: &Utf8Path) -> Result<Self, Error> {
        let path = Utf8PathBuf::from(format!("{database}.lock"));
        let unwritable =
            |error: std::io::Error| Error::ReadOnly { database: database.to_string(), source: error.into() };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(unwritable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let holder = holder.lines().next().filter(|line| !line.is_empty());
                return Err(Error::InUse {
                    database: database.to_string(),
                    holder: holder.unwrap_or("another process").to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(unwritable(error)),
        }
        // Only so that a refused process can name this one; a full disk must not keep a database closed.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "process {}", std::process::id()));
        Ok(Self { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing alone would not do: a process that is just being started elsewhere in this program shares the
        // open file until it becomes the other program.
        let _ = self.file.unlock();
    }
}
