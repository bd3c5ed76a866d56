use pilothouse_runtime::config::Duration;
use serde::{Deserialize, Serialize};

/// How the backend runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How many clusters are worked on at once.
    pub concurrency: usize,
    /// How often every operation is looked at without any event.
    pub resync: Duration,
    /// How long a part of the work stays with a backend that is not heard of any more.
    pub lease: Duration,
    /// How long one call to Clusters Service may take.
    pub call_limit: Duration,
    /// After how long making a cluster or a node pool counts as failed.
    pub create_deadline: Duration,
    /// After how long deleting counts as failed.
    pub delete_deadline: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            concurrency: 32,
            resync: Duration::from_secs(300),
            lease: Duration::from_secs(15),
            call_limit: Duration::from_secs(20),
            create_deadline: Duration::from_secs(60 * 60),
            delete_deadline: Duration::from_secs(12 * 60 * 60),
        }
    }
}
