//! Hosted clusters, as their clients see them.
//!
//! Everything the operator asks a hosted cluster goes through the published address with the administrator's kubeconfig: if
//! that way is broken, the cluster is not available, however well its pods may feel. Where the gateway asks clients where they
//! come from, the operator has a door of its own, and the rest of the way is the same.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::Chain;
use tokio::time::{Instant, timeout};

use crate::error::{Error, Refused};

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a server may take from its start to its first answer; the pass as a whole is repeated by a slower policy.
const START: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);

/// Clients of hosted clusters, kept because a connection costs more than a question.
pub(crate) struct Published {
    clients: Mutex<HashMap<ObjectKey, Entry>>,
    door: Option<Door>,
}

/// The operator's own way into the gateway.
#[derive(Clone, Copy)]
struct Door {
    /// Where everybody else goes.
    instead_of: SocketAddr,
    address: SocketAddr,
}

struct Entry {
    /// Of the kubeconfig, which holds a key and is not kept.
    digest: u64,
    client: Client,
}

// === impl Published ===

impl Published {
    pub(crate) fn new(config: &crate::Config) -> Self {
        let door = config.ask_address.map(|address| Door { instead_of: config.publish_address, address });
        Self { clients: Mutex::default(), door }
    }

    /// The client of a cluster with this kubeconfig.
    pub(crate) async fn client(&self, cluster: &ObjectKey, kubeconfig: &str) -> Result<Client, Error> {
        let digest = digest(kubeconfig);
        if let Some(entry) = self.lock().get(cluster)
            && entry.digest == digest
        {
            return Ok(entry.client.clone());
        }
        let client = connect(kubeconfig, self.door).await?;
        self.lock().insert(cluster.clone(), Entry { digest, client: client.clone() });
        Ok(client)
    }

    /// The client of a cluster that was asked for before.
    pub(crate) fn known(&self, cluster: &ObjectKey) -> Option<(u64, Client)> {
        self.lock().get(cluster).map(|entry| (entry.digest, entry.client.clone()))
    }

    /// The cluster is gone.
    pub(crate) fn forget(&self, cluster: &ObjectKey) {
        self.lock().remove(cluster);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Entry>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks an API server whether it is ready, for a second or so: a server that has just started, and the gateway that has
/// just heard of it, are milliseconds late and not broken. Says what was seen if it never was.
pub(crate) async fn is_ready(client: &Client) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let seen = match ask(client).await {
            Ok(()) => return Ok(()),
            Err(seen) => seen,
        };
        let waited = begun.elapsed();
        if waited > START {
            return Err(seen);
        }
        tokio::time::sleep(pause(waited)).await;
    }
}

/// Nothing tells of a server's first answer, so it is asked for: never an eighth later than it could have been heard.
fn pause(waited: Duration) -> Duration {
    (waited / 8).max(SHORTEST_PAUSE)
}

async fn ask(client: &Client) -> Result<(), String> {
    let request = Request::get("/readyz").body(Vec::new()).map_err(|error| error.to_string())?;
    match timeout(PATIENCE, client.request_text(request)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Refused::from(error).to_string()),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

async fn connect(kubeconfig: &str, door: Option<Door>) -> Result<Client, Error> {
    let refused = |error: &dyn std::error::Error| Error::HostedClient(Chain(error).to_string());
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(|error| refused(&error))?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| refused(&error))?;
    if let Some(Door { instead_of, address }) = door
        && config.cluster_url.authority().map(http::uri::Authority::as_str) == Some(&instead_of.to_string())
    {
        let url = format!("https://{address}");
        config.cluster_url = url.parse().map_err(|error: http::uri::InvalidUri| refused(&error))?;
    }
    config.connect_timeout = Some(PATIENCE);
    // Here "not now" is an answer, and we have our own way to ask again.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| refused(&error))
}

fn digest(kubeconfig: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    kubeconfig.hash(&mut hasher);
    hasher.finish()
}
