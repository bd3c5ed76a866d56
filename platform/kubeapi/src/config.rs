use std::net::SocketAddr;

use serde::Deserialize;

/// What a server is told about itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where it listens. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The Kubernetes version it speaks, such as `1.33.4`. Clients decide by it what they may use.
    pub version: String,
    /// The range Services get their addresses from; the first belongs to the Service `kubernetes`.
    pub service_cidr: String,
    /// What the Endpoints of the Service `kubernetes` name; where it listens, if nothing is said.
    pub advertise: Option<SocketAddr>,
    /// The URL clients outside reach it under, if it is not where it listens.
    pub external_url: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            version: "1.33.4".to_owned(),
            service_cidr: "10.96.0.0/16".to_owned(),
            advertise: None,
            external_url: None,
        }
    }
}
