use std::net::SocketAddr;
use std::time::Duration;

use pilothouse_http::TlsFiles;
use serde::Deserialize;

/// Where the broker is and how much it takes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address and port; port 0 takes a free one. Off the loopback `tls` is needed, with authorities for clients.
    pub listen: SocketAddr,
    /// Certificate files.
    pub tls: Option<TlsFiles>,
    /// How much it takes.
    pub limits: Limits,
}

/// How much the broker takes, and for how long it is patient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Open connections; further ones wait in the kernel's queue.
    pub connections: u32,
    /// Bytes of one packet.
    pub packet_bytes: u32,
    /// Messages a client may send before the first of them is acknowledged.
    pub receive_maximum: u16,
    /// Messages that wait for one subscriber.
    pub queued_messages: usize,
    /// Bytes that wait for one subscriber.
    pub queued_bytes: usize,
    /// Subscriptions of one client.
    pub subscriptions: usize,
    /// Seconds a client may be silent, whatever it asks for; MQTT grants it half as much again.
    pub keep_alive_seconds: u16,
    /// Seconds from a connection to the end of its CONNECT, handshake included, and for writing one packet.
    pub patience_seconds: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { listen: ([127, 0, 0, 1], 1883).into(), tls: None, limits: Limits::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            packet_bytes: 4 << 20,
            receive_maximum: 256,
            queued_messages: 10_000,
            queued_bytes: 64 << 20,
            subscriptions: 1_000,
            keep_alive_seconds: 300,
            patience_seconds: 20,
        }
    }
}

impl Limits {
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.patience_seconds)
    }
}
