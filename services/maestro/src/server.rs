//! The server: keeps bundles, sends them out, takes statuses in.
//!
//! # Tasks
//!
//! * `rest`, `grpc` and `grpc-broker`: the listeners, each with a task per connection. The last is for agents, where
//!   there is no broker.
//! * `mqtt`: the connection to the broker, where there is one.
//! * `reports`: takes what agents send, and hands statuses to several tasks `report`.
//! * `replicas`: keeps the list of replicas that share the store, if there are any.
//! * `outbox`: a controller whose keys are the bundles that have to be sent; woken by `outbox-feed`, which follows the
//!   store, so that it does not matter which replica accepted a bundle.
//! * `resync`: one per question of an agent, one per connection to the broker, and one when statuses had to wait for the
//!   store; each tries until the store and the broker let it.

mod accepted;
mod access;
mod again;
mod agents;
mod bundle;
mod config;
mod error;
mod grpc;
mod in_hand;
mod metrics;
mod outbox;
mod pages;
mod records;
mod reports;
mod rest;
mod resync;
mod search;
mod service;
mod share;
mod sources;
mod stored_event;
mod subscription;

pub use self::access::{AccessConfig, AccessError, Authentication};
pub use self::config::Config;
pub use self::error::Error;
pub use self::records::catalog;
pub use self::service::{Deps, Service};
