//! The ARM resource provider that people call.
//!
//! A request is routed by its path, whatever its case ([`router`](self)), and read once into a `Call`: resource id,
//! api-version, subscription, caller, conditions, correlation. Then it is decided. Clusters, node pools and external
//! authentications go the same way (`resource`) and differ in what their files say (`kind`):
//!
//! * **What is wrong is refused first**, all of it at once, and changes nothing: the body (`body`, `json`), the form and the
//!   rules of the version (`base/api`), the version that the caller means (`condition`), the state of the subscription
//!   (`gate`), of the resource and of its parent, and what Clusters Service would refuse: it is asked in advance, with a
//!   call that changes nothing there (`ask`), and its "no" is told with the caller's own field (`refused`).
//! * **What is accepted is stored**: resource and operation in one transaction. The operation carries, word for word, what
//!   Clusters Service was asked in advance; the backend sends it from there, so an accepted request cannot be lost.
//! * **Nothing is decided on what has changed since.** The transaction checks again what the decision was made on: the
//!   resource, its cluster, its subscription, what else lies below the cluster, and what a cluster alone may use. Whoever
//!   comes too late reads again.
//! * **Repeating is harmless.** The same PUT while the first is under way leads to the same operation.
//!
//! Credentials (`credential`) are work like everything else, and secret: they are read from Clusters Service when their
//! result is asked for and kept nowhere. Versions and role sets (`release`) are looked up there too, and remembered for a
//! while. ARM tells about subscriptions (`subscription`) and asks about whole deployments (`deployment`).
//!
//! Everything but the probes is behind a gate (`base/access`): it tells who calls and whether they may, and records it.
//! Administrators have a surface of their own (`admin`), and a mesh in front may ask the gate itself.
//!
//! # Tasks
//!
//! The listeners, one task per connection, those that keep the issuer's keys, the certificates and the audit file, and one
//! that gives up what is left of deleted subscriptions (`sweep`). At shutdown what was accepted is finished.

mod accept;
mod access;
mod admin;
mod answer;
mod args;
mod ask;
mod body;
mod call;
mod cluster;
mod condition;
mod config;
mod credential;
mod deployment;
mod error;
mod external_auth;
mod gate;
mod json;
mod kind;
mod metrics;
mod node_pool;
mod notification;
mod operation;
mod page;
mod path;
mod provider;
mod query;
mod refused;
mod release;
mod resource;
mod router;
mod service;
mod subscription;
mod sweep;

pub use self::args::Args;
pub use self::config::{Admin, Config, Notifications};
pub use self::error::Error;
pub use self::service::{Deps, Service};

/// Every path that is answered, as the router knows it, for whoever has to visit all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// On the public listener.
    pub public: Vec<String>,
    /// On the administrators' listener.
    pub admin: Vec<String>,
}

/// Every path that is answered.
pub fn paths() -> Paths {
    Paths { public: router::paths(), admin: admin::paths() }
}
