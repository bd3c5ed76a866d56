use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::hosted_cluster::Payload;

/// Where hosted clusters are published, and what they are made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The gateway, as clients of hosted clusters reach it. It tells clusters apart by host name.
    pub publish_address: SocketAddr,
    /// Where the operator itself asks API servers at the gateway, if that is another address: one at which the gateway asks
    /// nobody where they come from, so that clusters can be told from others that only some may reach.
    pub ask_address: Option<SocketAddr>,
    /// Whether the management cluster gives addresses to Services of type `LoadBalancer`. If not, the gateway is the
    /// balancer of every cluster that asks for one.
    pub load_balancers: bool,
    /// The domain of clusters that do not name one.
    pub base_domain: String,
    /// The image that is this very program.
    pub image: String,
    /// The payload of clusters that choose none.
    pub payload: Payload,
    /// Where the management cluster's only node has the programs of upstream Kubernetes, a folder for each version. Without
    /// it they are images of a registry.
    pub upstream: Option<PathBuf>,
    /// The registry that images of upstream Kubernetes come from.
    pub registry: String,
    /// The socket of a node of ours whose pods are in a network of their own. Without it pods are reached directly.
    pub node_socket: Option<PathBuf>,
    /// The operator's own namespace, where it says which versions it serves.
    pub namespace: String,
    /// How many clusters, and how many pools, are worked on at once.
    pub concurrency: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            publish_address: SocketAddr::from(([127, 0, 0, 1], 9443)),
            ask_address: None,
            load_balancers: false,
            base_domain: "pilothouse.test".to_owned(),
            image: "pilothouse".to_owned(),
            payload: Payload::default(),
            upstream: None,
            registry: "registry.k8s.io".to_owned(),
            node_socket: None,
            namespace: "hypershift".to_owned(),
            concurrency: 16,
        }
    }
}
