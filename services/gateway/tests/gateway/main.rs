//! The gateway as clients see it: real TLS on both ends, and a cluster that the test writes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod api;
mod drain;
mod routing;
mod support;
