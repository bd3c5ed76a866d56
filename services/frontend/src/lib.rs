//! The ARM resource provider that people call.
//!
//! A request is routed by its path, whatever its case ([`router`](self)), and read once into a `Call`: resource id,
//! api-version, subscription, caller, correlation. Then its handler decides, one file per kind of resource:
//!
//! * **What is wrong is refused first**, all of it at once, and changes nothing: the form and the rules of the version
//!   (`base/api`), the state of the resource and of its parent, and what Clusters Service would refuse (a call that
//!   changes nothing there).
//! * **What is accepted is stored**: resource and operation in one transaction. The operation carries, word for word, what
//!   Clusters Service was asked in advance; the backend sends it from there, so an accepted request cannot be lost.
//! * **Repeating is harmless.** The same PUT while the first is under way leads to the same operation; writers that
//!   meet each other read again.
//!
//! Nobody is authenticated here yet, so the listener takes nothing but the loopback.
//!
//! # Tasks
//!
//! The listener, and one task per connection. At shutdown what was accepted is finished.

mod accept;
mod answer;
mod call;
mod cluster;
mod config;
mod error;
mod metrics;
mod node_pool;
mod operation;
mod path;
mod preflight;
mod router;
mod service;
mod subscription;

pub use self::config::Config;
pub use self::error::Error;
pub use self::service::{Deps, Service};
