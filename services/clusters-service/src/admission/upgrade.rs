//! What has to hold for an upgrade to be asked for, and to begin.

use pilothouse_clusters_service_api::{Cluster, NodePool, Version};

use super::node_pool::fitting;
use super::numbers;
use super::update::upgrade;
use crate::catalogue;
use crate::config::Config;
use crate::refusal::Refusal;

const FIELD: &str = "version";
/// How many of the versions that are possible are named to whoever asks for another.
const NAMED: usize = 5;

/// A version that a control plane can be upgraded to: one that its own leads to, and not away from its nodes.
pub(crate) fn control_plane_upgrade(
    number: &str,
    cluster: &Cluster,
    node_pools: &[NodePool],
    config: &Config,
) -> Result<Version, Refusal> {
    let wanted = available(number, &cluster.version, config)?;
    upgrade(wanted, &cluster.version, node_pools, config)
}

/// A version that a node pool can be upgraded to: one that its own leads to, and not beyond its control plane.
///
/// A pool that lags two minors behind may go both at once, since its nodes are replaced and not changed.
pub(crate) fn node_pool_upgrade(
    number: &str,
    node_pool: &NodePool,
    cluster: &Cluster,
    config: &Config,
) -> Result<Version, Refusal> {
    let wanted = version(number, &node_pool.version);
    if numbers(&wanted) <= numbers(&node_pool.version) {
        let problem =
            format!("`{number}` is not newer than `{}`, which the node pool runs", node_pool.version.id);
        return Err(Refusal::field(FIELD, problem));
    }
    fitting(wanted, &cluster.version, config)
}

/// A version among those that another one leads to.
fn available(number: &str, current: &Version, config: &Config) -> Result<Version, Refusal> {
    let running = current.number().unwrap_or_default();
    let group = current.channel_group.as_deref().unwrap_or("stable");
    let id = Version::of_channel(running, group).id;
    let possible = catalogue::find(config, &id).map(|release| release.available_upgrades).unwrap_or_default();
    if possible.iter().any(|possible| possible == number) {
        return Ok(version(number, current));
    }
    let first: Vec<_> = possible.iter().take(NAMED).map(String::as_str).collect();
    let problem = if first.is_empty() {
        format!("`{number}` cannot be reached: nothing is newer than `{running}`")
    } else {
        let more = if possible.len() > NAMED { " and others" } else { "" };
        format!(
            "`{number}` cannot be reached from `{running}`; {}{more} can, see `/versions/{id}`",
            first.join(", ")
        )
    };
    Err(Refusal::field(FIELD, problem))
}

/// In the same channel.
fn version(number: &str, current: &Version) -> Version {
    Version::of_channel(number, current.channel_group.as_deref().unwrap_or("stable"))
}
