//! The frontend over HTTP, with a Clusters Service that says yes or no as the test wants.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod clusters;
mod node_pools;
mod requests;
mod support;
