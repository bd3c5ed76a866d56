//! What the crate promises, over real sockets on the loopback.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod bind;
mod client;
mod curl;
mod drain;
mod operations;
mod stack;
mod support;
mod tls;
