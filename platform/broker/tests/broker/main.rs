//! The broker, spoken to by clients that are not ours, and packet by packet.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod clients;
mod mosquitto;
mod packets;
mod support;
mod tls;
