//! The gateway as clients see it: real TLS on both ends, and a cluster that the test writes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod access;
mod api;
mod balancers;
mod drain;
mod egress;
mod faults;
mod limits;
mod management;
mod reload;
mod routing;
mod support;
mod tools;
