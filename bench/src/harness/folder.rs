//! A temporary folder on a disk.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::TempDir;

/// A folder that is removed with this value.
#[derive(Debug)]
pub(crate) struct Folder {
    root: TempDir,
    file_system: String,
}

/// File systems that keep everything in memory: flushing costs nothing there.
const IN_MEMORY: &[&str] = &["tmpfs", "ramfs"];
/// Where to go if the temporary folder is one of them.
const ON_DISK: &str = "/var/tmp";

impl Folder {
    /// A folder in the temporary folder of the environment, unless that is in memory.
    pub(crate) fn create() -> anyhow::Result<Self> {
        let wanted = std::env::temp_dir();
        let parent =
            if IN_MEMORY.contains(&file_system(&wanted).as_str()) { PathBuf::from(ON_DISK) } else { wanted };
        let root = tempfile::Builder::new()
            .prefix("pilothouse-bench-")
            .tempdir_in(&parent)
            .with_context(|| format!("cannot make a folder in {}", parent.display()))?;
        let file_system = file_system(root.path());
        Ok(Self { root, file_system })
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    /// For the lines above the table.
    pub(crate) fn describe(&self) -> String {
        let remark =
            if IN_MEMORY.contains(&self.file_system.as_str()) { ", IN MEMORY: not durable" } else { "" };
        format!("{}{remark}", self.file_system)
    }
}

/// The type of the file system that has `path`: that of the longest mount point above it, the last if several.
pub(crate) fn file_system(path: &Path) -> String {
    let Ok(path) = path.canonicalize() else { return "unknown".to_owned() };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (_device, mount_point, kind) = (fields.next()?, fields.next()?, fields.next()?);
            path.starts_with(mount_point).then_some((mount_point.len(), kind))
        })
        .max_by_key(|(length, _)| *length)
        .map_or_else(|| "unknown".to_owned(), |(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_mount_point_decides() {
        assert_eq!(file_system(Path::new("/proc/self")), "proc");
        assert_eq!(file_system(Path::new("/no/such/path")), "unknown");
    }
}
