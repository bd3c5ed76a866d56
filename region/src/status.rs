//! How a region is, seen from outside its process.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use pilothouse_http::{Client, ClientBuildError, ClientBuilder};
use pilothouse_runtime::Chain;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::data_dir::{DataDir, RunningProcess};
use crate::endpoints::Endpoints;
use crate::hosted_clusters::{ClusterSummary, HostedClusters};

/// How long a region may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a region is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Its folder.
    pub data_dir: String,
    /// The process that runs it, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<RunningProcess>,
    /// Where everything is, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Endpoints>,
    /// Whether all of its parts can work.
    pub ready: bool,
    /// What its parts say of themselves.
    pub checks: BTreeMap<String, Check>,
    /// Its hosted clusters.
    pub clusters: Vec<ClusterSummary>,
    /// What could not be found out, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// What a part says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// `ready`, `warning` or `failed`.
    pub status: String,
    /// In words.
    pub detail: String,
}

#[derive(Deserialize)]
struct Readiness {
    ready: bool,
    checks: BTreeMap<String, Check>,
}

// === impl Status ===

impl Status {
    /// Looks at the region in this folder. What does not answer is said in [`unknown`](Self::unknown).
    ///
    /// # Errors
    ///
    /// If nothing can be asked from this machine.
    pub async fn look(data_dir: &DataDir) -> Result<Self, ClientBuildError> {
        let process = data_dir.running();
        let mut status = Self {
            data_dir: data_dir.root().display().to_string(),
            process,
            endpoints: None,
            ready: false,
            checks: BTreeMap::new(),
            clusters: Vec::new(),
            unknown: Vec::new(),
        };
        if process.is_none() {
            return Ok(status);
        }
        let endpoints = fs::read(data_dir.endpoints_file()).ok();
        let endpoints = endpoints.and_then(|text| serde_json::from_slice::<Endpoints>(&text).ok());
        let Some(endpoints) = endpoints else {
            status.unknown.push("it is still starting: its endpoints are not known".to_owned());
            return Ok(status);
        };
        let client = ClientBuilder::new(PATIENCE).build()?;
        match readiness(&client, &endpoints.metrics).await {
            Ok(Readiness { ready, checks }) => (status.ready, status.checks) = (ready, checks),
            Err(problem) => status.unknown.push(format!("its parts: {problem}")),
        }
        status.endpoints = Some(endpoints);
        let clusters = async { HostedClusters::open(data_dir).await?.list().await };
        match tokio::time::timeout(PATIENCE, clusters).await {
            Ok(Ok(clusters)) => status.clusters = clusters,
            Ok(Err(error)) => {
                status.unknown.push(format!("its clusters: {}", Chain(&error)));
            }
            Err(_) => {
                status.unknown.push("its clusters: the management cluster did not answer in time".to_owned())
            }
        }
        Ok(status)
    }
}

/// What the page says, which also answers when something is not well.
async fn readiness(client: &Client, pages: &str) -> Result<Readiness, String> {
    let page = Url::parse(&format!("{pages}/readyz")).map_err(|error| error.to_string())?;
    let asked = async { client.get(page).send().await?.json().await };
    asked.await.map_err(|error| Chain(&error).to_string())
}
