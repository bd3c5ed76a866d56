use std::path::PathBuf;

use pilothouse_http::ListenerConfig;
use serde::{Deserialize, Serialize};

/// Which works are carried out, and which clusters are managed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The namespace of the works that are meant for this cluster.
    pub namespace: String,
    /// How long a value of feedback may be that is written as JSON, in bytes.
    pub json_raw_limit: usize,
    /// How many works, and how many clusters, are worked on at once.
    pub concurrency: usize,
    /// Whether hosted clusters become managed clusters by themselves.
    pub auto_import: bool,
    /// This cluster's API server, as others reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_url: Option<String>,
    /// Where `hcp` can be downloaded. Without it, nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downloads: Option<Downloads>,
}

/// Where `hcp` can be downloaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Downloads {
    /// Where it is served.
    pub listener: ListenerConfig,
    /// The folder that the archive is made in.
    pub folder: PathBuf,
    /// What links begin with. Without it, the address that is listened on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The program. Without it, `hcp` beside this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            namespace: "local-cluster".to_owned(),
            json_raw_limit: 1024 * 1024,
            concurrency: 16,
            auto_import: true,
            api_url: None,
            downloads: None,
        }
    }
}

impl Downloads {
    /// Downloads on this listener, of an archive that is made in `folder`.
    pub fn new(listener: ListenerConfig, folder: PathBuf) -> Self {
        Self { listener, folder, url: None, program: None }
    }
}
