//! The multicluster engine against a live Kubernetes API.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod engines;
mod imports;
mod support;
mod works;
