use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use pilothouse_arm::ResourceId;
use pilothouse_arm::dns::{ZONES, region_zone};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// How the name server runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where it listens, over UDP and TCP; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The id of the region's own zone. What is not below its name is refused.
    pub base_zone: String,
    /// Its addresses as others know them: those of the name servers that zones have.
    pub addresses: Vec<IpAddr>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 5300)),
            base_zone: region_zone("pilothouse.test").into(),
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        }
    }
}

impl Config {
    /// Checked once, at the edge.
    pub(crate) fn base_zone(&self) -> Result<ResourceId, Error> {
        let refused = |problem: String| Error::Config { key: "base_zone", problem };
        let id: ResourceId = self.base_zone.parse().map_err(|error| refused(format!("{error}")))?;
        if !id.is_a(ZONES) {
            return Err(refused(format!("`{id}` is not the id of a DNS zone; name one of type {ZONES}")));
        }
        Ok(id)
    }
}
