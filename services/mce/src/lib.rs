//! The multicluster engine: `MultiClusterEngine`, `ManagedCluster`s, the work agent of the management cluster, and where
//! `hcp` is downloaded from.
//!
//! * **Engines.** A `MultiClusterEngine` says what is wanted: that the cluster manages itself as `local-cluster`, that hosted
//!   clusters are imported, that `hcp` is offered. Its status lists which of that runs.
//! * **Managed clusters.** A `ManagedCluster` is available when its `HostedCluster` is. One that carries the label
//!   `api.openshift.com/id` has a managed cluster of that name, which somebody else makes; every other is imported under
//!   its own name once it is available, and detached when it goes.
//! * **Works.** The `ManifestWork`s of one namespace, `local-cluster`, are carried out in this very cluster. What that means
//!   is `pilothouse-work`'s business; here a work is found, claimed, handed over, and its status written back.
//! * **Downloads.** `hcp` as an archive, under the addresses that the `ConsoleCLIDownload` links to.
//!
//! # Tasks
//!
//! A watch each of engines, managed clusters, hosted clusters, works, the download and the operator's Lease; a controller
//! each for engines, managed clusters and works; the watches of the work engine, one per resource that something was
//! applied of; and the listener of downloads.

mod archive;
mod config;
mod downloads;
mod error;
mod managed_cluster;
mod metrics;
mod multi_cluster_engine;
mod presence;
mod service;
mod work;

pub use self::config::{Config, Downloads};
pub use self::error::{Error, Refused};
pub use self::presence::Presence;
pub use self::service::{Deps, Service};
