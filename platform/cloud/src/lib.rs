//! The cloud a laptop has: resource groups, DNS zones, load balancers and identities, over ARM's own protocol.
//!
//! Clusters Service prepares a managed resource group for every cluster and deletes it with the cluster. In a real cloud
//! it talks to the cloud's resource manager; here it talks, in the same words, to this server, which keeps the same
//! resources and gives them the same life: what was put is there until it, or its group, is deleted, across restarts.
//!
//! What it does not do is make anything happen: a load balancer here balances nothing. What serves names and connections
//! in an embedded region (`services/gateway`, and a DNS server to come) reads its own sources.
//!
//! * `target`: what a path names, in whatever case it is spelled;
//! * `resources`: groups and what is in them, over the store; a subscription is a partition, so deleting a group with
//!   everything in it is one transaction;
//! * `provider`: the types there are, and what each adds to what was put;
//! * `rest`: methods to calls, errors to ARM's shapes.
//!
//! # Tasks
//!
//! `serve` (the listener) and one `connection` per peer.

mod config;
mod error;
mod provider;
mod refusal;
mod resources;
mod rest;
mod service;
mod target;

pub use config::Config;
pub use error::Error;
pub use resources::catalog;
pub use service::{Deps, Service};
