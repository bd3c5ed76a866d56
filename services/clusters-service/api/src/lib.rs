//! Clusters and node pools as Clusters Service writes them, and a client.
//!
//! The contract between Clusters Service and whoever asks it for clusters: JSON in `snake_case` over HTTP, in the
//! shape of OCM's `clusters_mgmt` API. The server is another crate; this one is what both sides share.
//!
//! - **What is asked and what is answered are two types.** A [`NewCluster`] is sent, a [`Cluster`] comes back, so
//!   nobody can send a state or forget to read one. The same holds for [`NewNodePool`] and [`NodePool`].
//! - **Creating twice creates once.** A cluster is known by the ARM resource it stands for ([`Azure`]) and by the
//!   operation that asks for it ([`properties::OPERATION_ID`]); the same pair again answers with the same cluster.
//! - **Changing twice changes once.** A [`NodePoolUpdate`] is known by its operation as well.
//! - **Following, not polling.** [`Client::watch`] streams every change with a [`Cursor`] to come back to.
//! - **Errors name what to change.** [`Error::details`] points at the field, such as [`DOMAIN_PREFIX`].

mod client;
mod cluster;
mod error;
mod event;
mod id;
mod list;
mod node_pool;
pub mod properties;
mod provision_shard;
mod reference;
mod version;
mod watch;

pub use client::Client;
pub use cluster::{
    Api, Azure, Cluster, ClusterState, ClusterStatus, Dns, Enabled, Listening, Network, NewCluster,
};
pub use error::{DOMAIN_PREFIX, Detail, Error, ErrorBody};
pub use event::{Change, Cursor, Event};
pub use id::{ClusterId, InvalidId, NodePoolId};
pub use list::{List, ListQuery};
pub use node_pool::{
    AzureNodePool, NewNodePool, NodePool, NodePoolState, NodePoolStateValue, NodePoolStatus, NodePoolUpdate,
    Taint,
};
pub use provision_shard::{AzureShard, Endpoint, MaestroConfig, ProvisionShard};
pub use reference::Reference;
pub use version::Version;

/// Where the API begins. Ids and answers are the same below both.
pub const BASES: [&str; 2] = ["/api/clusters_mgmt/v1", "/api/aro_hcp/v1alpha1"];
