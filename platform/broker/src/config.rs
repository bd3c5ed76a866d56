use std::net::SocketAddr;
use std::time::Duration;

use pilothouse_http::TlsFiles;
use serde::{Deserialize, Serialize};

use crate::access::Authorizer;
use crate::error::Error;
use crate::rules::Rule;

/// Where the broker is, how much it takes, and from whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address and port; port 0 takes a free one. Off the loopback `tls` is needed, with authorities for clients.
    pub listen: SocketAddr,
    /// Certificate files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// How much it takes.
    pub limits: Limits,
    /// Who may use which topics, by the names in certificates; the first that is about a name says everything about it.
    /// They are for [`Config::authorizer`]: whoever composes a broker may decide otherwise.
    pub rules: Vec<Rule>,
}

/// How much the broker takes, and for how long it is patient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        let listen = ([127, 0, 0, 1], 1883).into();
        Self { listen, tls: None, limits: Limits::default(), rules: Vec::new() }
    }
}

impl Config {
    /// Whether clients have to show a certificate.
    pub(crate) fn authenticates(&self) -> bool {
        self.tls.as_ref().is_some_and(|files| files.client_authorities.is_some())
    }

    /// Who may do what, as the rules say. Without certificates, which only the loopback can be, everybody may do everything.
    ///
    /// # Errors
    ///
    /// If rules and certificates do not fit together, or a rule makes no sense.
    pub fn authorizer(&self) -> Result<Authorizer, Error> {
        for rule in &self.rules {
            rule.check()?;
        }
        match (self.authenticates(), self.rules.is_empty()) {
            (true, true) => Err(Error::NoRules),
            (false, false) => Err(Error::NobodyIsKnown),
            (true, false) => Ok(Authorizer::by_rules(self.rules.clone())),
            (false, true) => Ok(Authorizer::open()),
        }
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
