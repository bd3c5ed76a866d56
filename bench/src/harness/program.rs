//! The program that is measured: a copy of this very one.
//!
//! A benchmark cannot know where a `pilothouse` binary is, nor whether it was built from the same source. So it brings
//! its own: called by that name, this program is `pilothouse` and nothing else. Under other names it is itself.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::processes::Process;
use crate::harness::Folder;

/// The name under which this program is `pilothouse`.
pub(crate) const PILOTHOUSE: &str = "pilothouse";

/// A copy of this program under the other name.
///
/// A file of its own makes two things simple: memory that the benchmark itself uses is not taken for shared, and a process
/// that runs from it is one of ours, whatever it calls itself and whichever namespaces it is in.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    /// Device and number of the file.
    file: (u64, u64),
}

/// Whether this process was started as `pilothouse`.
pub(crate) fn is_pilothouse() -> bool {
    let name = std::env::args_os().next();
    name.as_deref().map(Path::new).and_then(Path::file_name) == Some(OsStr::new(PILOTHOUSE))
}

impl Program {
    pub(crate) fn copy_to(folder: &Folder, name: &str) -> anyhow::Result<Self> {
        let path = folder.path().join(name);
        let this = std::env::current_exe().context("the path of this program is not known")?;
        fs::copy(&this, &path).with_context(|| format!("cannot copy {}", this.display()))?;
        // A disk that is busy with the copy would be slow at everything that is measured.
        File::open(&path)?.sync_all()?;
        let file = identity(&path)?;
        Ok(Self { path, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Everything that runs from it.
    pub(crate) fn processes(&self) -> anyhow::Result<Vec<Process>> {
        let ours =
            |id: &i32| identity(Path::new(&format!("/proc/{id}/exe"))).is_ok_and(|file| file == self.file);
        let entries = fs::read_dir("/proc").context("cannot look for processes")?;
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        // One that ends while it is looked at was not there.
        Ok(ids.filter(ours).filter_map(Process::read).collect())
    }
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let file = fs::metadata(path)?;
    Ok((file.dev(), file.ino()))
}
