//! The server: keeps bundles, sends them out, takes statuses in.
//!
//! # Tasks
//!
//! * `rest` and `grpc`: the listeners, each with a task per connection.
//! * `mqtt`: the connection to the broker.
//! * `reports`: deals with what agents send, in order.
//! * `outbox`: a controller whose keys are the bundles that have to be sent; woken by `outbox-feed`, which follows the
//!   store, so that it does not matter which replica accepted a bundle.
//! * `resync`: one per question of an agent, and one per connection to the broker.

mod bundle;
mod config;
mod error;
mod grpc;
mod metrics;
mod outbox;
mod records;
mod reports;
mod rest;
mod resync;
mod search;
mod service;
mod subscription;

pub use self::config::Config;
pub use self::error::Error;
pub use self::records::catalog;
pub use self::service::{Deps, Service};
