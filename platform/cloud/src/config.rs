use std::net::{IpAddr, Ipv4Addr};

use pilothouse_arm::ResourceId;
use pilothouse_arm::dns::{ZONES, is_name, region_zone};
use pilothouse_http::{AllowedCallers, ListenerConfig};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// How the cloud runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where it listens; port 0 takes a free one.
    pub listener: ListenerConfig,
    /// The address that whatever is behind a load balancer is reached at: the gateway's.
    pub gateway: IpAddr,
    /// The id of the region's own DNS zone, which the cloud makes and nobody may delete.
    pub base_zone: String,
    /// Who may read what secrets say, by the names of their certificates. On the loopback whoever shows none may read as well.
    pub secret_readers: AllowedCallers,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listener: ListenerConfig::loopback(0),
            gateway: IpAddr::V4(Ipv4Addr::LOCALHOST),
            base_zone: region_zone("pilothouse.test").into(),
            secret_readers: AllowedCallers::new(["clusters-service"]),
        }
    }
}

impl Config {
    /// Checked once, at the edge.
    pub(crate) fn base_zone(&self) -> Result<ResourceId, Error> {
        let refused = |problem: String| Error::Config { key: "base_zone", problem };
        let id: ResourceId = self.base_zone.parse().map_err(|error| refused(format!("{error}")))?;
        if !id.is_a(ZONES) || id.resource_group_name().is_none() || !is_name(id.name()) {
            let problem = format!("`{id}` is not the id of a DNS zone in a group; name one of type {ZONES}");
            return Err(refused(problem));
        }
        Ok(id)
    }
}
