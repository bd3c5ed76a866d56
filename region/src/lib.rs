//! A whole region in one process, over the embedded engines.
//!
//! [`Region::start`] is what `pilothouse up` and the tests call: it takes a folder ([`DataDir`]), makes an authority and
//! credentials for every part, starts the management cluster (API server, controllers, and a node in a process of its
//! own), then the services on top of it, and returns when every endpoint accepts. What is in the folder already is
//! resumed.
//!
//! # Order
//!
//! Parts are started in the order in which they need one another, and stopped in the reverse: hosted control planes first,
//! which are pods of the node, while everything still runs; then services and management cluster together; then the stores
//! are closed. `kill -9` skips all of that: pods go on, and the next region on the same folder adopts them.
//!
//! # Tasks
//!
//! One task `region` of the process, which ends all others; the parts are tasks of a group of their own.

pub mod control_plane;
pub mod kube_apiserver;

mod break_glass;
mod config;
mod credentials;
mod data_dir;
mod endpoints;
mod error;
mod first_cluster;
mod gateway;
mod hosted_clusters;
mod kubeconfig_files;
mod kubernetes;
mod management;
mod names;
mod node;
mod operators;
mod ports;
mod reachability;
mod region;
mod residents;
mod services;
mod status;
mod stop;

pub use pilothouse_hypershift::Payload;

pub use self::break_glass::BreakGlass;
pub use self::config::{Authentication, Config, PortChoice};
pub use self::credentials::{Credentials, CredentialsError};
pub use self::data_dir::{DataDir, DataDirError, Held, RunningProcess};
pub use self::endpoints::Endpoints;
pub use self::error::Error;
pub use self::first_cluster::{FirstCluster, FirstClusterError, TENANT};
pub use self::gateway::GatewayFile;
pub use self::hosted_clusters::{ClusterSummary, HostedClusters, HostedClustersError, NodeSummary};
pub use self::kubernetes::ClientError;
pub use self::names::CloudNames;
pub use self::node::NodeError;
pub use self::operators::Management;
pub use self::ports::{Ports, PortsError};
pub use self::region::Region;
pub use self::status::{Check, Status};
pub use self::stop::{StopError, Stopped, stop};

/// Whether a program of this name can be run.
pub fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
