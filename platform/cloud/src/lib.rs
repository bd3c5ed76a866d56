//! The cloud a laptop has: resource groups, DNS zones, load balancers, identities and vaults, over ARM's own protocol.
//!
//! Clusters Service prepares a managed resource group for every cluster and deletes it with the cluster. In a real cloud
//! it talks to the cloud's resource manager; here it talks, in the same words, to this server, which keeps the same
//! resources and gives them the same life: what was put is there until it, or its group, is deleted, across restarts.
//!
//! What it does not do is make anything happen by itself: a load balancer here balances nothing, its address is the
//! gateway's (`services/gateway`), which has its routes from the management cluster. Names are answered by `platform/dns`,
//! which follows the zones and record sets kept here ([`NameFeed`]).
//!
//! **Nobody touches what he did not make**, if he says so: `If-None-Match: *` makes and never replaces, `If-Match` changes
//! and deletes what was read and nothing else. Clusters Service always says so, and looks whose a resource is in between.
//!
//! * `target`: what a path names, in whatever case it is spelled;
//! * `resources`: groups and what is in them, over the store; a subscription is a partition, so deleting a group with
//!   everything in it is one transaction;
//! * `provider`: the types there are, what each must be, and what the cloud adds to what was put;
//! * `vault`: vaults, and what the secrets in them say, which is sealed and told to few;
//! * `condition`: what must hold of a resource for a request to be carried out;
//! * `follow`: zones and record sets, and what becomes of them;
//! * `rest`: methods to calls, errors to ARM's shapes;
//! * `health`: what the readiness page says.
//!
//! # Tasks
//!
//! `serve` (the listener) and one `connection` per peer.

mod condition;
mod config;
mod error;
mod follow;
mod health;
mod provider;
mod refusal;
mod resources;
mod rest;
mod service;
mod target;
mod vault;

pub use config::Config;
pub use error::Error;
pub use follow::{NameFeed, NameNews};
pub use resources::{catalog, names_catalog};
pub use service::{Deps, Service};
