//! The frontend over HTTP, with a simulated Clusters Service; the tests are the backend.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod access;
mod admin;
mod arm;
mod clusters;
mod conditions;
mod conflicts;
mod credentials;
mod deployments;
mod external_auths;
mod gated;
mod lists;
mod node_pools;
mod operations;
mod races;
mod releases;
mod requests;
mod subscriptions;
mod support;
mod updates;
