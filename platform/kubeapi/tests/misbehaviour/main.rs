//! Clients that behave badly, and a server that is killed: what is answered is exact, what is used is bounded, and what
//! was acknowledged is there.
//!
//! * `bodies`: objects that are too large or too deep, and bytes that are no objects.
//! * `watches`: many of them, and some that do not read.
//! * `kills`: `kill -9` under load.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod bodies;
mod kills;
mod watches;
