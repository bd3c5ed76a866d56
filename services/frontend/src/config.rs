use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

/// How the frontend runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The region that resources are in.
    pub location: String,
    /// How many resources a page of a list has.
    pub page_size: usize,
    /// How many seconds clients are asked to wait between two looks at an operation.
    pub retry_after_seconds: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            location: "local".to_owned(),
            page_size: 20,
            retry_after_seconds: 1,
        }
    }
}
