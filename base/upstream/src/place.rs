//! Where programs are kept, and how they come there.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;

/// The cache folder that was named, or the one of this name among the user's.
///
/// # Errors
///
/// If none was named, and the user has none.
pub fn cache(named: Option<&Path>, name: &str) -> Result<PathBuf, Error> {
    if let Some(folder) = named {
        return std::path::absolute(folder).map_err(Error::file("find", folder));
    }
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    Ok(user.ok_or(Error::NoCache)?.join("pilothouse").join(name))
}

/// Has a file made beside `place`, and moves it there when it is complete.
///
/// # Errors
///
/// If it cannot be made; then nothing is left of it.
pub fn place_by(place: &Path, make: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    let partial = place.with_extension(format!("partial-{}", std::process::id()));
    let made = make(&partial).and_then(|()| fs::rename(&partial, place).map_err(Error::file("write", place)));
    if made.is_err() {
        // Often there is none; what went wrong is told, not this.
        let _ = fs::remove_file(&partial);
    }
    made
}
