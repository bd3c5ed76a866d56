//! Clients that somebody else wrote, unmodified, against our server.
//!
//! * `controllers`: Kubernetes' own controller manager and scheduler, from the cache that `cargo xtask upstream` fills.
//! * `python`: the Python client, its informer's parts and its dynamic client.
//! * `runtime`: kube-rs' controllers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod controllers;
mod python;
mod runtime;
