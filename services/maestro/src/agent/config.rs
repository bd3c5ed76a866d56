use serde::{Deserialize, Serialize};

use crate::link::BrokerConfig;

/// Which cluster this is, and where its orders come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The broker.
    pub broker: BrokerConfig,
    /// The name of this cluster; part of every topic.
    pub consumer: String,
    /// What the server calls itself; part of every topic.
    pub source_id: String,
    /// What the agent calls itself in events; `<consumer>-work-agent` unless said otherwise.
    pub agent_id: Option<String>,
    /// Names where bundles come from, in the records of what was applied. It must never change for a cluster; whoever takes
    /// over from an agent that used its broker's address writes that address.
    pub hub: String,
    /// The database in which a process that runs the agent alone keeps what it was told; its keys are beside it. Whoever runs
    /// it along with others brings a store of theirs.
    pub store: String,
    /// Bytes a value of feedback may have that is written as JSON.
    pub json_raw_limit: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            broker: BrokerConfig {
                client_id: "local-cluster-work-agent-client".to_owned(),
                ..BrokerConfig::default()
            },
            consumer: "local-cluster".to_owned(),
            source_id: "maestro".to_owned(),
            agent_id: None,
            hub: "maestro".to_owned(),
            store: "maestro-agent.db".to_owned(),
            json_raw_limit: 1 << 20,
        }
    }
}
