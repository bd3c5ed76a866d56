//! The controllers of a cluster: what turns a Deployment into pods on nodes, over any Kubernetes API.
//!
//! A management cluster and a light hosted cluster run the same set. Each controller is one file with a planner, a pure
//! function from what is wanted and what was observed to what is to be done, and an `impl Reconcile` that reads
//! the caches, plans, and carries it out.
//!
//! | controller | what it looks after |
//! |---|---|
//! | `deployments` | replica sets of a Deployment: rollouts, history, conditions |
//! | `replica-sets` | pods of a ReplicaSet |
//! | `replication-controllers` | pods of a ReplicationController |
//! | `stateful-sets` | pods and claims of a StatefulSet |
//! | `daemon-sets` | a pod of a DaemonSet on every node that it fits |
//! | `jobs` | pods of a Job until its work is done, and removing jobs whose time is over |
//! | `cron-jobs` | jobs by the clock |
//! | `disruption-budgets` | how many pods of a budget may be evicted |
//! | `scheduler` | a node for every pod |
//! | `endpoints` | Endpoints and EndpointSlices of Services with a selector |
//! | `namespace-defaults` | service account `default` and ConfigMap `kube-root-ca.crt` of every namespace |
//! | `namespaces` | emptying namespaces that are being deleted |
//! | `garbage` | what owners leave behind: background, foreground and orphaning deletion |
//! | `node-ranges` | a pod range for every node |
//! | `node-lifecycle` | nodes whose lease is not renewed, their taints, and the pods of nodes that are gone |
//! | `taint-eviction` | pods on nodes with taints that they do not tolerate, or not for ever |
//! | `certificate-requests` | certificates of nodes and clients: approving, signing, and removing old requests |
//! | `bootstrap-tokens` | tokens with which nodes join: removing those that have ended, and signing `cluster-info` |
//! | `volumes` | a volume for every claim of the storage class `local` |
//! | `volume-protection` | claims that pods use and volumes that claims have are not removed |
//!
//! # What is remembered
//!
//! Every resource is watched once (`watches`), and everybody reads that cache; what no controller reads is dropped before it
//! is cached. Garbage collection and namespaces need to know of every object of every resource, custom ones included,
//! but hardly anything about it: for them there is an `inventory`, fed by the same watches and, for the resources
//! that nobody else watches, by watches of the metadata alone. Which resources there are is asked again whenever a
//! custom resource definition changes (`discovery`).
//!
//! # Stale caches
//!
//! A cache may be a moment behind. Whatever could do harm then is made safe by the API itself: names that follow from the
//! owner, preconditions on uid and resource version, or a fresh list before pods are created or deleted by
//! number. An answer of "conflict" or "not found" ends a pass quietly: the event that explains it is on its way.
//!
//! # Tasks
//!
//! Owned by `controllers`: one `watch-…` per resource that is cached, one `inventory` per further resource, and one
//! per controller by the names above, `discovery`, and `events`, which writes what the others noted.

mod adoption;
mod bootstrap_token;
mod calls;
mod certificate_request;
mod config;
mod cron_job;
mod daemon_set;
mod deployment;
mod discovery;
mod disruption;
mod endpoints;
mod error;
mod events;
mod fresh;
mod garbage;
mod inventory;
mod job;
mod metrics;
mod namespace;
mod namespace_defaults;
mod node_lifecycle;
mod node_range;
mod ownership;
mod placement;
mod pod;
mod replica_set;
mod replication_controller;
mod revision;
mod scheduler;
mod service;
mod share;
mod stateful_set;
mod template;
mod volume;
mod watches;

pub use config::Config;
pub use error::Error;
pub use service::{Deps, Handle, Service};
