//! The resource provider as its callers meet it: a real frontend and a real backend over a real store, and a simulated
//! Clusters Service behind them.
//!
//! * `sdk`: Azure's own SDK, unmodified, over the whole life of every kind of resource.
//! * `bad_requests`: a table of what must be refused, how, and that it changes nothing.
//! * `schemathesis`: requests drawn from our own OpenAPI documents.
//! * `faults`: killed between any two writes, the work ends the same way, once.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod bad_requests;
mod bodies;
mod faults;
mod provider;
mod schemathesis;
mod sdk;
