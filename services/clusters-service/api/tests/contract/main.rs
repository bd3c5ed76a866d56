//! The contract on the wire, and the simulated service that speaks it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![recursion_limit = "256"]

mod credentials;
mod faults;
mod simulated;
mod support;
mod watch;
mod wire;
