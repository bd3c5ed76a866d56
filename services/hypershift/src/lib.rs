//! The operator that turns `HostedCluster`s into control planes and `NodePool`s into nodes.
//!
//! A hosted cluster named `first` in namespace `ocm-local-1` gets a namespace `ocm-local-1-first` with its certificates,
//! one StatefulSet (the payload `light`: API server, controllers and scheduler in one process), a Service, and a Route
//! that publishes its API under a host name. A node pool gets one pod per node in that same namespace, whose program is a
//! kubelet joined to the hosted cluster.
//!
//! * **One wave.** Whatever can be known before the first pod runs is applied in one pass; nothing waits for something
//!   that it does not need.
//! * **Available means it was asked.** A hosted cluster is available when `/readyz` answered through the published address,
//!   with the administrator's credentials: the way every client will go.
//! * **Checked first.** Everything that is wrong with a specification, and with what it names, is said at once, and nothing
//!   is made before it is right. A cluster that runs and is asked for something impossible keeps what it has.
//! * **Made once, kept.** Keys are made when they are missing, never again; certificates, and after years authorities, are
//!   renewed before they expire, at the moment that the first of them is due.
//! * **A pass writes only differences.** Desired objects are compared with the cache, so that a pass over a finished cluster
//!   costs no write and a new version of the operator rolls no pod.
//! * **Deletion is the same pass.** It finds what is left and takes the next step, from whatever state.
//!
//! # Tasks
//!
//! One watch per kind of what it makes, two of the Secrets and ConfigMaps of others, which clusters may name, one controller
//! each for hosted clusters and node pools, one watch of the nodes of each hosted cluster that has node pools, and
//! `supported-versions` with two watches of its own, which keeps what `hcp` reads; and `events`, which writes them.

mod apply;
mod caches;
mod config;
mod error;
mod events;
mod hosted_cluster;
mod hosted_nodes;
mod metrics;
mod names;
mod node_pool;
mod pause;
mod pod;
mod published;
mod secrets;
mod service;
mod signer;
mod supported_versions;
mod versions;

pub use self::config::Config;
pub use self::error::{Error, Refused};
pub use self::hosted_cluster::Payload;
pub use self::service::{Deps, Service};
pub use self::versions::{KUBERNETES_MINOR_AHEAD, Release, ReleaseError};
