use std::io;
use std::net::SocketAddr;

use pilothouse_runtime::StillRunning;

/// Why the name server does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What it was told makes no sense.
    #[error("`{key}` of the name server: {problem}")]
    Config {
        /// Which setting.
        key: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// Its port is not to be had.
    #[error("the name server cannot listen on {address}; choose another address with its `listen` setting")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Something would not stop in time.
    #[error("the name server did not come to rest")]
    Drain(#[from] StillRunning),
}
