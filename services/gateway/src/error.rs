//! Why the gateway cannot run.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use pilothouse_runtime::StillRunning;

use crate::config::Contradiction;
use crate::management::Unusable;

/// Why the gateway cannot be built, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its configuration makes no sense as a whole.
    #[error("{0}")]
    Config(#[from] Contradiction),
    /// Its port is not to be had.
    #[error("the gateway cannot listen on {address}; choose another address with its `listen` setting")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A management cluster of the configuration cannot be connected to.
    #[error("management cluster `{name}` cannot be followed by {}; does `kubectl` work with that?", .kubeconfig.display())]
    Management {
        /// What it is called.
        name: String,
        /// How it would be reached.
        kubeconfig: PathBuf,
        /// Why not.
        source: Unusable,
    },
    /// Not everything ended in time.
    #[error("not all of the gateway's tasks ended in time")]
    Drain(#[source] StillRunning),
}
