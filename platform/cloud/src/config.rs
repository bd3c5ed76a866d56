use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

/// How the cloud runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
}

impl Default for Config {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, 0).into() }
    }
}
