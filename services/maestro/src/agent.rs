//! The agent: applies bundles to its management cluster and reports what became of them.
//!
//! What it was last told, and what came of it, is in a store of its own ([`catalog`]), sealed, since manifests have secrets
//! in them. It is written before anything is done about an order. So an agent that is started again goes on where it was:
//! it looks after what it knows without a broker, writes nothing that is as it should be, reports nothing twice, knows
//! which fields its last manifests had, and asks the server only for what is newer. Should the store be lost, the records in
//! the cluster say what was applied, and the server is asked about that, too. Nothing is removed unless the server says so.
//!
//! # Tasks
//!
//! * `mqtt`: the connection to the broker.
//! * `orders`: deals with what the server sends, in order.
//! * `questions`: asks the server for what was missed, until it was asked.
//! * `works`: a controller whose keys are bundles. A pass applies, or removes, and reports if there is news.
//! * a watch per resource of which something was applied, whose changes wake the bundle.

mod config;
mod error;
mod held;
mod metrics;
mod orders;
mod questions;
mod saved;
mod service;
mod works;

pub use self::config::Config;
pub use self::error::Error;
pub use self::saved::catalog;
pub use self::service::{Deps, Service};
