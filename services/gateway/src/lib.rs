//! Hosted API servers behind one port, told apart by SNI; and the way out for clusters that have no other.
//!
//! A client's first message says, in the clear, which host it wants to talk to. The gateway reads that much, looks up which
//! `Route` has the host, connects to an endpoint of the route's service, and from then on carries bytes both ways without
//! understanding them: keys and certificates are the business of the two ends.
//!
//! * **Routes are live.** Routes and Endpoints come from watches, of one management cluster or several; a route works as soon
//!   as it exists and somebody answers behind it. A host that two routes claim belongs to the older one, and each route's
//!   status says which it is. Management clusters come, change and go with the configuration.
//! * **A route says who may come.** By the client's address, which a balancer in front tells with a PROXY header if it is one
//!   that is believed. A change is for connections that come after it.
//! * **Nobody can hold the door.** The first message is bounded in size and time, connections in number, also of each cluster
//!   and of each address, and silence in duration. Who has not said anything yet is left to the system, for some seconds; and
//!   of those who have not said enough, whoever has waited longest goes when there are too many.
//! * **A refusal is an answer.** Without a name, or with one that nobody has, a client gets the TLS alert
//!   `unrecognized_name`; when it may not come, `access_denied`; when nobody answers behind a route, `internal_error`. All of
//!   them are counted by outcome.
//! * **The way out** is HTTP's CONNECT, by a list for each cluster of where it may go: see [`Permission`].
//!
//! Why it is made like that: `docs/decisions/0021-the-gateway-asks-who-comes.md`, `0035-nobody-keeps-others-out.md`.
//!
//! # Tasks
//!
//! Owned by `gateway`: `accept` for the listener for everybody, `accept-further` for all others, `watch` for the management
//! clusters, and one `connection` each. For each management cluster there is a group of its own, as long as it is followed:
//! `watch-routes-…`, `watch-endpoints-…` and, once its word counts, `routes` (their status). Whoever runs the gateway alone adds
//! `configuration`, of a [`Reloader`].

mod access;
mod address;
mod client_hello;
mod cluster;
mod config;
mod connection;
mod dial;
mod doors;
mod egress;
mod error;
mod follow;
mod management;
mod metrics;
mod proxy_header;
mod range;
mod reload;
mod resolve;
mod route;
mod service;
mod splice;
mod stream;
mod waiting;
mod watch;

pub use cluster::ClusterName;
pub use config::{
    Config, Contradiction, Egress, EgressCluster, EgressListener, Listener, MANAGEMENT, ManagementCluster,
    Reach,
};
pub use dial::{Dial, Direct, dialer};
pub use egress::{NoPermission, Permission};
pub use error::Error;
pub use management::{Management, Unusable};
pub use range::{NoRange, Range};
pub use reload::Reloader;
pub use route::RouteKey;
pub use service::{Deps, Handle, Service};
pub use stream::Stream;
