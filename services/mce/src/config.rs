use serde::{Deserialize, Serialize};

/// Which works are carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The namespace of the works that are meant for this cluster.
    pub namespace: String,
    /// How long a value of feedback may be that is written as JSON, in bytes.
    pub json_raw_limit: usize,
    /// How many works, and how many clusters, are worked on at once.
    pub concurrency: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { namespace: "local-cluster".to_owned(), json_raw_limit: 1024 * 1024, concurrency: 16 }
    }
}
