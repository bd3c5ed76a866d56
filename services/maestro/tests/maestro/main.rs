//! Source, server, broker, agent and cluster together.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod access;
mod away;
mod cluster;
mod dialled;
mod faults;
mod feedback;
mod flow;
mod fuzz;
mod killed;
mod original;
mod outages;
mod oversized;
mod packets;
mod proxy;
mod replicas;
mod rest;
mod restart;
mod search;
mod stores;
mod tenants;
mod world;
