use pilothouse_http::ListenerConfig;
use serde::Deserialize;

use crate::link::BrokerConfig;

/// Where the server listens and whom it serves.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The REST interface.
    pub rest: ListenerConfig,
    /// The gRPC interface for sources.
    pub grpc: ListenerConfig,
    /// The broker.
    pub broker: BrokerConfig,
    /// What the server calls itself to agents; part of every topic.
    pub source_id: String,
    /// Consumers that are made if they do not exist.
    pub consumers: Vec<String>,
    /// The group in which replicas share the agents' messages; without one, every replica takes all of them.
    pub shared_group: Option<String>,
    /// Seconds between signs of life on a subscription.
    pub heartbeat_seconds: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rest: ListenerConfig::loopback(8002),
            grpc: ListenerConfig::loopback(8090),
            broker: BrokerConfig::default(),
            source_id: "maestro".to_owned(),
            consumers: Vec::new(),
            shared_group: None,
            heartbeat_seconds: 10,
        }
    }
}
