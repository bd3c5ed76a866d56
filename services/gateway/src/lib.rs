//! Hosted API servers behind one port, told apart by SNI.
//!
//! A client's first message says, in the clear, which host it wants to talk to. The gateway reads that much, looks up which
//! `Route` has the host, connects to an endpoint of the route's service, and from then on carries bytes both ways without
//! understanding them: keys and certificates are the business of the two ends.
//!
//! * **Routes are live.** Routes and Endpoints come from watches; a route works as soon as it exists and somebody answers
//!   behind it. A host that two routes claim belongs to the older one, and each route's status says which it is.
//! * **Nobody can hold the door.** The first message is bounded in size and time, connections in number, and silence in
//!   duration.
//! * **A refusal is an answer.** Without a name, or with one that nobody has, a client gets the TLS alert
//!   `unrecognized_name`; when nobody answers behind a route, `internal_error`. All of them are counted by outcome.
//!
//! # Tasks
//!
//! Owned by `gateway`: `accept`, `watch-routes`, `watch-endpoints`, `routes` (their status), and one `connection` each.

mod client_hello;
mod config;
mod connection;
mod dial;
mod error;
mod metrics;
mod resolve;
mod route;
mod service;
mod splice;

pub use config::Config;
pub use dial::{Dial, Direct};
pub use error::Error;
pub use service::{Deps, Handle, Service};
