//! Private PostgreSQL servers.
//!
//! A server is a fresh data folder and a `postgres` process that nobody else knows of. It is as durable as one in
//! production unless [`Options`] say otherwise, because what the store promises depends on it.
//!
//! [`shared`] gives one server per test process; tests keep out of each other's way with
//! [`Server::fresh_database`]. A test that stops its server starts one of its own with [`Server::start`]; stopping
//! takes `&mut self`, so the shared one cannot be stopped under somebody else's feet.
//!
//! PostgreSQL refuses to run as root. There the server is started as the user `postgres`, or `nobody` where that
//! does not exist; its data folder belongs to that user.

mod folder;
mod owner;
mod programs;
mod server;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::LazyLock;
use std::time::Duration;

use nix::sys::signal::Signal;

pub use self::server::Server;

/// The server that all tests of this process share, started by the first of them. `None` if the machine has no
/// PostgreSQL: the test was noted as skipped and should return.
///
/// # Panics
///
/// If the server does not start, or is missing where nothing may be skipped.
pub fn shared() -> Option<&'static Server> {
    static SHARED: LazyLock<Result<Server, Error>> = LazyLock::new(|| Server::try_start(Options::default()));
    match &*SHARED {
        Ok(server) => Some(server),
        Err(Error::Missing(_)) => {
            // Once per test, not once per process: each is a skip of its own.
            programs::REQUIREMENT.missing();
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Settings of a server, over those of a fresh installation.
#[derive(Clone, Debug)]
pub struct Options {
    settings: Vec<(String, String)>,
}

/// How a server is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Connections are cut, transactions rolled back, everything is written out.
    Fast,
    /// As if it had crashed: the next start recovers from the log.
    Immediate,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program is not installed.
    #[error("`{0}` was found neither in PATH nor in /usr/lib/postgresql (apt-get install postgresql)")]
    Missing(&'static str),
    /// A folder could not be made or handed to the user who runs the server.
    #[error("cannot prepare {path}: {source}")]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The server's user could not reach its data.
    #[error("{user} cannot enter {path}; point TMPDIR to a folder that everybody may enter")]
    Unreachable {
        /// The folder that is closed.
        path: PathBuf,
        /// The user who runs the server.
        user: String,
    },
    /// A program could not be started.
    #[error("cannot run {program}: {source}")]
    Run {
        /// The program.
        program: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A program ran and failed.
    #[error("{program} failed with {status}: {output}")]
    Failed {
        /// The program.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// What it printed.
        output: String,
    },
    /// The server did not become ready.
    #[error("PostgreSQL is not ready: {what}; end of its log:\n{log}")]
    NotReady {
        /// What happened instead.
        what: String,
        /// The end of the server's log.
        log: String,
    },
    /// The server did not stop.
    #[error("PostgreSQL did not stop within {limit:?} ({how:?}); end of its log:\n{log}")]
    NotStopped {
        /// How it was asked.
        how: Stop,
        /// How long it was given.
        limit: Duration,
        /// The end of the server's log.
        log: String,
    },
}

// === impl Options ===

impl Default for Options {
    /// Durable, with room for the connections of many tests at once.
    fn default() -> Self {
        Self { settings: Vec::new() }.setting("max_connections", "300")
    }
}

impl Options {
    /// Sets one parameter, as in `postgresql.conf`. The last value of a parameter counts.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Trades durability for speed, for tests of anything but what survives.
    #[must_use]
    pub fn not_durable(self) -> Self {
        self.setting("fsync", "off").setting("synchronous_commit", "off").setting("full_page_writes", "off")
    }
}

// === impl Stop ===

impl Stop {
    /// The signal by which the server's main process understands it.
    fn signal(self) -> Signal {
        match self {
            Self::Fast => Signal::SIGINT,
            Self::Immediate => Signal::SIGQUIT,
        }
    }
}
