use pilothouse_http::ListenerConfig;
use serde::{Deserialize, Serialize};

use crate::link::BrokerConfig;
use crate::server::access::AccessConfig;

/// Where the server listens and whom it serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The REST interface.
    pub rest: ListenerConfig,
    /// The gRPC interface for sources.
    pub grpc: ListenerConfig,
    /// How sources are told apart.
    pub sources: AccessConfig,
    /// The broker, unless agents dial the server: `kind` says which.
    pub broker: BrokerConfig,
    /// The gRPC interface for agents, where they dial the server.
    pub grpc_broker: ListenerConfig,
    /// How agents are told apart that dial the server.
    pub agents: AccessConfig,
    /// Where `/healthcheck` and `/livez` are served, for whoever expects them as the original has them.
    pub health: Option<ListenerConfig>,
    /// What the server calls itself to agents; part of every topic.
    pub source_id: String,
    /// Consumers that are made if they do not exist.
    pub consumers: Vec<String>,
    /// What this server is called among the replicas that share its store; without a name it is alone.
    pub replica: Option<String>,
    /// The group in which replicas share the agents' messages at the MQTT broker; without one, every replica hears all of
    /// them, and deals with its own share.
    pub shared_group: Option<String>,
    /// Seconds between signs of life on a subscription.
    pub heartbeat_seconds: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rest: ListenerConfig::loopback(8002),
            grpc: ListenerConfig::loopback(8090),
            sources: AccessConfig::default(),
            broker: BrokerConfig::default(),
            grpc_broker: ListenerConfig::loopback(8091),
            agents: AccessConfig::default(),
            health: None,
            source_id: "maestro".to_owned(),
            consumers: Vec::new(),
            replica: None,
            shared_group: None,
            heartbeat_seconds: 10,
        }
    }
}
