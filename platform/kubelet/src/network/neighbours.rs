//! The other nodes of the cluster: their pods are reached through them.

use std::net::Ipv4Addr;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Node;
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Next, Reconcile, TaskError};
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};

use super::{CONFINED_TABLE, Network, Range, done};
use crate::failure::Failure;

/// Where the pods of another node are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Neighbour {
    node: Ipv4Addr,
    pods: Range,
}

/// The reconciler: one other node a key.
pub(crate) struct Neighbours {
    pub(crate) nodes: Informer<Node>,
    pub(crate) network: Network,
    /// The name of this node.
    pub(crate) here: String,
    /// Its own pods.
    pub(crate) pods: Range,
}

impl Reconcile for Neighbours {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        self.nodes.synced().await;
        let known = self.network.neighbours.lock().await.keys().cloned().collect::<Vec<_>>();
        let mut keys = self.nodes.keys();
        keys.extend(known.into_iter().map(ObjectKey::cluster));
        keys.sort();
        keys.dedup();
        Ok(keys)
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let neighbour = self.nodes.get(key).filter(|_| key.name != self.here);
        let neighbour = neighbour.and_then(|node| neighbour_of(&node));
        let neighbour =
            neighbour.filter(|one| is_elsewhere(one, self.network.node, &[self.pods, self.network.services]));
        self.network.lead_to(&key.name, neighbour).await?;
        Ok(Next::Done)
    }
}

/// What a Node says about where its pods are, if it says it.
fn neighbour_of(node: &Node) -> Option<Neighbour> {
    let pods = node.spec.as_ref()?.pod_cidr.as_ref()?.parse().ok()?;
    let addresses = node.status.as_ref()?.addresses.iter().flatten();
    let internal = addresses.filter(|address| address.type_ == "InternalIP");
    let node = internal.filter_map(|address| address.address.parse().ok()).next()?;
    Some(Neighbour { node, pods })
}

/// Whether pods are not where we are: a range in which we live ourselves is around us, and what is ours stays here.
fn is_elsewhere(neighbour: &Neighbour, here: Ipv4Addr, ours: &[Range]) -> bool {
    let pods = neighbour.pods;
    let overlaps = |range: &Range| pods.place(range.first()).is_some() || range.place(pods.first()).is_some();
    neighbour.node != here && pods.place(here).is_none() && !ours.iter().any(overlaps)
}

// === impl Network ===

impl Network {
    /// Routes to the pods of another node, or no longer.
    async fn lead_to(&self, name: &str, neighbour: Option<Neighbour>) -> Result<(), Failure> {
        let mut neighbours = self.neighbours.lock().await;
        if neighbours.get(name).copied() == neighbour {
            return Ok(());
        }
        if let Some(former) = neighbours.remove(name) {
            let gone = RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(former.pods.first(), former.pods.prefix());
            self.remove_route(gone.build(), || format!("forgetting the pods of {name}")).await?;
            for route in opened(former) {
                self.remove_route(route, || format!("forgetting the pods of {name}")).await?;
            }
        }
        let Some(neighbour) = neighbour else { return Ok(()) };
        let doing = || format!("routing to the pods of {name}");
        let (gateway, interface) = self.way_to(neighbour.node).await?;
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(neighbour.pods.first(), neighbour.pods.prefix())
            .gateway(gateway)
            .output_interface(interface)
            .build();
        done(self.handle.route().add(route).replace().execute().await, doing)?;
        for route in opened(neighbour) {
            done(self.handle.route().add(route).replace().execute().await, doing)?;
        }
        neighbours.insert(name.to_owned(), neighbour);
        Ok(())
    }

    /// The next hop on the way to an address: itself where it is next to us.
    async fn way_to(&self, address: Ipv4Addr) -> Result<(Ipv4Addr, u32), Failure> {
        let doing = || format!("finding the way to {address}");
        let question = RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(address, 32).build();
        let mut found = std::pin::pin!(self.handle.route().get(question).execute());
        let route = found.try_next().await.map_err(|error| Failure::other(doing(), error))?;
        let (mut gateway, mut interface) = (address, None);
        for attribute in route.map(|route| route.attributes).unwrap_or_default() {
            match attribute {
                RouteAttribute::Gateway(RouteAddress::Inet(next)) => gateway = next,
                RouteAttribute::Oif(index) => interface = Some(index),
                _ => {}
            }
        }
        let interface = interface.ok_or_else(|| Failure::other(doing(), "there is none"))?;
        Ok((gateway, interface))
    }
}

/// What lets our own pods out to another node and its pods, see [`Network::confine`].
fn opened(neighbour: Neighbour) -> [RouteMessage; 2] {
    let Neighbour { node, pods } = neighbour;
    [(node, 32), (pods.first(), pods.prefix())].map(|(first, prefix)| {
        RouteMessageBuilder::<Ipv4Addr>::new()
            .table_id(CONFINED_TABLE)
            .destination_prefix(first, prefix)
            .kind(RouteType::Throw)
            .build()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_are_neighbours_when_they_are_elsewhere_and_say_where() {
        let node = |range: Option<&str>, address: &str| {
            let node = json!({"spec": {"podCIDR": range},
                "status": {"addresses": [{"type": "Hostname", "address": "x"}, {"type": "InternalIP", "address": address}]}});
            neighbour_of(&serde_json::from_value(node).unwrap())
        };
        let here = Ipv4Addr::new(10, 200, 0, 7);
        let ours = ["10.132.0.0/24", "172.31.0.0/16"].map(|range| range.parse().unwrap());
        let is_one = |range, address| node(range, address).is_some_and(|one| is_elsewhere(&one, here, &ours));
        assert!(is_one(Some("10.132.1.0/24"), "10.200.0.8"));
        assert!(!is_one(None, "10.200.0.8"), "it has no range yet");
        assert!(!is_one(Some("10.132.1.0/24"), "nowhere"));
        assert!(!is_one(Some("10.132.1.0/24"), "10.200.0.7"), "that is us");
        assert!(!is_one(Some("10.200.0.0/16"), "10.200.0.1"), "that is around us");
        assert!(!is_one(Some("10.132.0.0/16"), "10.200.0.8"), "our pods are here");
        assert!(!is_one(Some("172.31.4.0/24"), "10.200.0.8"), "our Services are here");
    }
}
