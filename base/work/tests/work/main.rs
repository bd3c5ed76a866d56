//! The engine against a live API server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod cluster;
mod engine;
mod ignore;
mod restart;
mod rules;
