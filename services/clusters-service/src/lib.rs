//! Clusters and node pools, from cloud resources to ManifestWorks and back.
//!
//! Clusters Service is where a cluster is more than a request and less than a control plane: it keeps one record per
//! cluster, prepares what it needs in the cloud, hands it to a management cluster, and brings the news back.
//!
//! | step of the flow | here |
//! |---|---|
//! | 4: the resource provider asks | `rest`: the OCM paths; `admission`: checks and defaults; `catalogue`: which releases there are; `clusters`: creating twice creates once |
//! | 5: cloud resources | `cloud`: a client of the resource manager |
//! | 6: manifests | `manifests`: two bundles a cluster, one a node pool; posted to Maestro over gRPC |
//! | 12: news | `observed`: what a bundle's status says; `plan`: what that means; `rest/events`: who follows is told |
//!
//! # Record, plan, act
//!
//! What was asked for is a record before it is anything else, and the answer goes out when the record is on disk. From
//! then on `controller` takes over: it reads the record and Maestro's bundles, makes a plan (a pure function, `plan`),
//! writes what is going on into the record, and acts. Every action may be repeated, so a crash at any point is the
//! ordinary path.
//!
//! # Several replicas
//!
//! Every replica takes requests and is woken by everything. Who acts is decided by leases on parts of the work
//! ([`pilothouse_store::Parts`]): what a plan writes is fenced by the lease, and a pass whose lease has run out stops where it
//! is. What was posted by then, and arrives when its cluster is gone, is found by the mark on it and removed.
//!
//! # Where a cluster goes
//!
//! A management cluster is a `provision_shard`. Which one a new cluster gets is a pure function (`placement`) of what is
//! wanted of each, whether it answers (`shards` asks) and how many clusters it has; the count is written in the transaction
//! that creates the cluster, so that none ever gets more than it may have.
//!
//! # Changes
//!
//! A change of a cluster, a node pool or an external auth is written into the record and makes other manifests; it is done
//! when the report on those very manifests has come back, and the version that was asked for runs. What nobody below acts on is
//! refused when it is asked for, with the field and what is possible instead, in a dry run as in earnest. An external auth has
//! no document of its own: it is part of its cluster's record, as it is part of its `HostedCluster`.
//!
//! # Tasks
//!
//! `clusters` (the controller), `shards` (that of management clusters), `follow the store` and `follow Maestro` (what wakes it, see `wakes`), `renew leases`, `serve` (the
//! listener) and one `connection` per peer. All of them end the process when they end.

mod admission;
mod catalogue;
mod cloud;
mod cluster_id;
mod clusters;
mod config;
mod controller;
mod error;
mod lanes;
mod links;
mod manifests;
mod metrics;
mod observed;
mod placement;
mod plan;
mod prefix;
mod record;
mod records;
mod refusal;
mod rest;
mod search;
mod service;
mod shards;
mod wakes;

pub use config::{Config, Deadlines, Probes, Probing, Shard};
pub use error::Error;
pub use records::catalog;
pub use service::{ControllerHandle, Deps, SOURCE_ID, Service};
