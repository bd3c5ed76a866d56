//! Operations of the resource provider, to completion.
//!
//! The frontend stores a resource and an operation on it; from there the backend takes it to its end. Work takes turns by
//! cluster: a pass looks at all operations on one cluster and its node pools, oldest first, and for each
//!
//! 1. reads the resource and asks Clusters Service what it knows (or asks it to make or delete, which may be repeated),
//! 2. decides from both what the operation is at (`progress`, a pure function),
//! 3. writes resource and operation in one transaction, if anything is different.
//!
//! So a backend may be killed anywhere: the next pass, here or in another process, reads the same things and goes on.
//! What wakes a pass is the feed of operations and the watch of Clusters Service; timers only repair, and end what
//! has waited past its deadline.
//!
//! Several backends share the work by leases on a fixed number of parts (`leases`). Whoever holds a part works on its
//! clusters, and every write is fenced by the lease, so one that lost it without noticing writes nothing.
//!
//! # Tasks
//!
//! The controller and its passes, `follow operations`, `follow Clusters Service`, and `renew leases`.

mod config;
mod controller;
mod error;
mod leases;
mod metrics;
mod progress;
mod service;
mod wake;

pub use self::config::Config;
pub use self::error::Error;
pub use self::service::{Deps, Service};
