//! Unix sockets at paths of any length.
//!
//! The kernel takes at most 107 bytes of path, which a data directory below somebody's home easily exceeds. Going
//! through a descriptor of the folder makes every path short.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// What the kernel takes without the detour.
const LONGEST: usize = 100;

/// A path that may be used as an address for as long as this lives.
#[derive(Debug)]
pub(crate) struct Address {
    path: PathBuf,
    _folder: Option<File>,
}

impl Address {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a socket needs a folder and a name"));
        };
        if path.as_os_str().len() <= LONGEST {
            return Ok(Self { path: path.to_owned(), _folder: None });
        }
        let folder = File::open(folder)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Connects to a Unix socket at a path of any length.
///
/// # Errors
///
/// When nobody listens there.
pub async fn connect_unix(path: &Path) -> io::Result<tokio::net::UnixStream> {
    let address = Address::of(path)?;
    tokio::net::UnixStream::connect(address.path()).await
}
