use pilothouse_http::ListenerConfig;
use serde::{Deserialize, Serialize};

/// How the cloud runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where it listens; port 0 takes a free one.
    pub listener: ListenerConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self { listener: ListenerConfig::loopback(0) }
    }
}
