//! The multicluster engine: `ManagedCluster`s and the work agent of the management cluster.
//!
//! Two controllers that know nothing of each other:
//!
//! * **Managed clusters.** A `ManagedCluster` is available when its `HostedCluster` is. The two belong together through the
//!   label `api.openshift.com/id` of the hosted cluster, whose value is the managed cluster's name.
//! * **Works.** The `ManifestWork`s of one namespace, `local-cluster`, are carried out in this very cluster. What that means
//!   is `pilothouse-work`'s business; here a work is found, claimed, handed over, and its status written back.
//!
//! # Tasks
//!
//! A watch each of managed clusters, hosted clusters and works; one controller for each of the two; and the watches of
//! the engine, one per resource that something was applied of.

mod config;
mod error;
mod managed_cluster;
mod metrics;
mod service;
mod work;

pub use self::config::Config;
pub use self::error::{Error, Refused};
pub use self::service::{Deps, Service};
