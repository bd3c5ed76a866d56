//! Operations of the resource provider, to completion.
//!
//! The frontend stores a resource and an operation on it; from there the backend takes it to its end. Work takes turns by
//! cluster: a pass looks at all operations on one cluster and its children, oldest first, and for each
//!
//! 1. reads the resource and asks Clusters Service what it knows (or asks it to make, change or delete, which may be
//!    repeated: Clusters Service knows the operation when it comes again),
//! 2. decides from both what the operation is at (`progress`, a pure function),
//! 3. writes resource and operation in one transaction, if anything is different.
//!
//! So a backend may be killed anywhere: the next pass, here or in another process, reads the same things and goes on.
//! What wakes a pass is the feed of operations, the holds on clusters and the watch of Clusters Service; timers only repair,
//! and end what has waited past its deadline.
//!
//! # Who waits for whom
//!
//! - **Subscriptions take turns**, and none takes more than three quarters of the places.
//! - **An attempt that failed** is written on the operation: why, how often, when it is made again. Until then nobody is
//!   kept busy by it. An administrator who clears that has it tried at once.
//! - **A hold** on a cluster stops all work on it where it is. Its release is a write that wakes; time on hold does not
//!   count towards the deadline.
//! - **Several backends** share the work by leases on a fixed number of parts ([`pilothouse_store::Parts`]). Whoever holds
//!   a part works on its clusters, every write is fenced by the lease, and a pass whose lease has run out stops where it
//!   is.
//!
//! # What comes after
//!
//! An operation that ended and has somebody to tell is found by an index and told about (`notifications`). What an
//! interrupted creation may have left at Clusters Service is found by comparison and removed (`sweep`).
//!
//! # Tasks
//!
//! The controllers `operations` and `notifications` with their passes, `follow operations`, `follow holds`, `follow
//! Clusters Service`, `find orphans` and `renew leases`.

mod active;
mod args;
mod config;
mod controller;
mod error;
mod kind;
mod metrics;
mod notifications;
mod progress;
mod service;
mod sweep;
mod wake;

pub use self::args::Args;
pub use self::config::{Config, Deadlines, Notifications};
pub use self::error::Error;
pub use self::service::{Deps, Service};
