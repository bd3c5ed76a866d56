//! The agent: applies bundles to its management cluster and reports what became of them.
//!
//! It keeps the bundles in memory only. When it starts, it asks the server for everything; what it applied before is
//! recorded in the cluster, and found as it should be.
//!
//! # Tasks
//!
//! * `mqtt`: the connection to the broker.
//! * `orders`: deals with what the server sends, in order.
//! * `works`: a controller whose keys are bundles. A pass applies, or removes, and reports if there is news.
//! * a watch per resource of which something was applied, whose changes wake the bundle.

mod config;
mod error;
mod held;
mod metrics;
mod orders;
mod service;
mod works;

pub use self::config::Config;
pub use self::error::Error;
pub use self::service::{Deps, Service};
