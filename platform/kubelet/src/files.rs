//! Small files that are replaced whole.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes a value as JSON so that a reader finds the old one or the new one. It need not survive a loss of power: what
/// it describes does not either.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, serde_json::to_vec(value)?)?;
    fs::rename(fresh, path)
}

/// Reads what [`write_json`] wrote; nothing if it is not there.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
