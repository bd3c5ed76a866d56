//! How the gateway listens and how patient it is.

use std::net::SocketAddr;

use pilothouse_runtime::config::{ByteSize, Duration};
use serde::{Deserialize, Serialize};

/// How the gateway listens and how patient it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// How many connections it holds at once; more are closed at once.
    pub max_connections: usize,
    /// How long a client may take to say whom it wants.
    pub hello_timeout: Duration,
    /// How long that message may be.
    pub hello_limit: ByteSize,
    /// How long connecting to one endpoint may take.
    pub dial_timeout: Duration,
    /// How long a connection may be silent in both directions. Watches of the Kubernetes API say something every minute.
    pub idle_timeout: Duration,
    /// How long connections that are in use may go on at shutdown.
    pub drain_timeout: Duration,
    /// How long a connection must have been silent at shutdown to be closed without waiting for the rest of that time.
    pub quiet: Duration,
    /// What it calls itself in the status of routes.
    pub name: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 9443)),
            max_connections: 10_000,
            hello_timeout: Duration::from_secs(10),
            hello_limit: ByteSize(32 * 1024),
            dial_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(15 * 60),
            drain_timeout: Duration::from_secs(10),
            quiet: Duration::from_millis(500),
            name: "pilothouse".to_owned(),
        }
    }
}
