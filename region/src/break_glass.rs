//! A way into a hosted cluster that is good for a day, by the road that everybody goes: Clusters Service has it signed.

use std::fs;
use std::time::Duration;

use kube::ResourceExt as _;
use pilothouse_clusters_service_api::{
    BreakGlassCredentialStatus, Client, ClusterId, NewBreakGlassCredential, properties,
};
use pilothouse_http::{ClientBuilder, Context};
use tokio::time::{Instant, sleep};
use url::Url;
use uuid::Uuid;

use crate::data_dir::DataDir;
use crate::endpoints::Endpoints;
use crate::hosted_clusters::{HostedClusters, HostedClustersError};

/// On every `HostedCluster` that Clusters Service made: its own id of the cluster.
const CLUSTER_ID: &str = "api.openshift.com/id";
/// How long it may take, and how often it is looked at: it is over in less than a second.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);

impl HostedClusters {
    /// A kubeconfig that opens a cluster for a day. A cluster that Clusters Service does not know has the one that its
    /// operator made.
    ///
    /// # Errors
    ///
    /// If there is no such cluster, if it does not answer yet, or if it has nothing signed.
    pub async fn short_lived_kubeconfig(
        &self,
        data_dir: &DataDir,
        name: &str,
    ) -> Result<String, HostedClustersError> {
        let cluster = self.find(name).await?;
        let id = cluster.labels().get(CLUSTER_ID).and_then(|id| id.parse::<ClusterId>().ok());
        let ready = cluster.status.as_ref().is_some_and(|status| status.kubeconfig.is_some());
        match id.filter(|_| ready) {
            Some(id) => issued(data_dir, name, &id).await,
            None => self.kubeconfig(name).await,
        }
    }
}

async fn issued(data_dir: &DataDir, name: &str, cluster: &ClusterId) -> Result<String, HostedClustersError> {
    let refused = |problem: String| HostedClustersError::NotIssued { name: name.to_owned(), problem };
    let failed = |error: &dyn std::error::Error| refused(pilothouse_runtime::Chain(error).to_string());
    let file = data_dir.endpoints_file();
    let text = fs::read(&file).map_err(|error| failed(&error))?;
    let endpoints: Endpoints = serde_json::from_slice(&text).map_err(|error| failed(&error))?;
    let address = Url::parse(&endpoints.clusters_service).map_err(|error| failed(&error))?;
    let http = ClientBuilder::new(PATIENCE).build().map_err(|error| failed(&error))?;
    let client = Client::try_new(http, &address).map_err(|error| failed(&error))?;
    let context = Context::new(PATIENCE);
    let new = NewBreakGlassCredential {
        // The call is sent again where nobody knows what became of it.
        properties: [(properties::OPERATION_ID.to_owned(), Uuid::new_v4().to_string())].into(),
        ..NewBreakGlassCredential::default()
    };
    let made = client.break_glass_create(&context, cluster, &new).await.map_err(|error| failed(&error))?;
    let begun = Instant::now();
    loop {
        let found = client.break_glass_get(&context, cluster, &made.id).await;
        let found = found.map_err(|error| failed(&error))?;
        match (found.status, found.kubeconfig) {
            (BreakGlassCredentialStatus::Issued, Some(kubeconfig)) => {
                return Ok(kubeconfig.expose().to_owned());
            }
            (BreakGlassCredentialStatus::Created, _) if begun.elapsed() < PATIENCE => sleep(LOOK).await,
            (BreakGlassCredentialStatus::Created, _) => {
                return Err(refused(format!("it takes too long; {}", found.message)));
            }
            (status, _) => return Err(refused(format!("it is {status:?}: {}", found.message))),
        }
    }
}
