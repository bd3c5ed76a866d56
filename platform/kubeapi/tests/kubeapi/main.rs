//! The server as its clients see it: kube-rs and kubectl.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod access;
mod admission;
mod definitions;
mod issuers;
mod kubectl;
mod nodes;
mod objects;
mod pods;
mod restart;
mod support;
mod watches;
