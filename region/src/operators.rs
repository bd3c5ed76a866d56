//! The operators of a management cluster that is somebody else's: any Kubernetes, by its kubeconfig.
//!
//! In a region the operators run beside everything else, over the embedded management cluster. Each also runs alone, in a
//! process of its own, and this is what such a process needs.

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use pilothouse_http::{Health, Verdict};
use pilothouse_informer::Reachability;
use pilothouse_mce::Presence;
use pilothouse_runtime::{Clock, OnExit, Tasks};

use crate::error::Error;
use crate::kubernetes::ClientError;
use crate::management;
use crate::reachability;

/// How long a connection to the API server may take.
const CONNECT: Duration = Duration::from_secs(30);

/// A management cluster.
#[derive(Clone)]
pub struct Management {
    client: Client,
    reachability: Reachability,
    url: String,
}

// === impl Management ===

impl Management {
    /// The cluster of this kubeconfig; without one, that of the environment: `KUBECONFIG`, the usual file, or the cluster
    /// whose pod this is.
    ///
    /// # Errors
    ///
    /// If there is no kubeconfig, or it is not understood.
    pub async fn connect(kubeconfig: Option<&Path>) -> Result<Self, ClientError> {
        let mut config = match kubeconfig {
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(path)?;
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
            }
            None => Config::infer().await?,
        };
        // A watch may be silent for as long as nothing happens.
        config.read_timeout = None;
        config.connect_timeout = Some(CONNECT);
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = Client::try_from(config).map_err(|error| ClientError::Client(Box::new(error)))?;
        let reachability = Reachability::default();
        Ok(Self { client: reachability.of(client), reachability, url })
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Has a page of health say whether it answers, and how bad it is if it does not.
    pub fn report(&self, health: &Health, check: &str, without: fn(String) -> Verdict) {
        reachability::report(&self.reachability, health, check, without);
    }

    /// Its API server, as this process reaches it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Makes the custom resources that are not there. Those of others are left as they are.
    ///
    /// # Errors
    ///
    /// If the cluster refuses one, or does not serve it in time.
    pub async fn ensure_definitions(&self) -> Result<(), Error> {
        management::ensure_definitions(&self.client).await
    }

    /// Says that the operator for hosted clusters runs, as a task, for as long as it does.
    pub fn announce_hypershift(&self, clock: Clock, tasks: &Tasks) {
        let presence = Presence::of_hypershift(self.client(), clock);
        let shutdown = tasks.shutdown().clone();
        tasks.spawn("presence", OnExit::StopProcess, async move {
            presence.keep(shutdown).await;
            Ok(())
        });
    }
}
