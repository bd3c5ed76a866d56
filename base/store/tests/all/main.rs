//! What the store promises, over every engine, and under every fault we can make.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod catalogue;
mod documents;
mod expiry;
mod faults;
mod feeds;
mod fixture;
mod history;
mod leases;
mod lists;
mod parts;
mod postgres;
mod secrets;
