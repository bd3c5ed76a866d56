//! Which Kubernetes a hosted cluster runs: what its API server says, asked with the administrator's kubeconfig.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use pilothouse_crds::{HistoryState, HostedCluster};
use pilothouse_runtime::Chain;
use tokio::time::timeout;

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What hosted clusters answered, by the names of their managed clusters. They are asked again when they have come to
/// another release.
pub(super) struct Versions {
    client: Client,
    known: Mutex<HashMap<String, Answer>>,
}

struct Answer {
    of: Asked,
    kubernetes: String,
}

/// Who was asked: a cluster, at one release.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    uid: Option<String>,
    release: Option<String>,
}

/// Why the version is not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error("its kubeconfig is not there yet")]
    NoKubeconfig,
    #[error("its kubeconfig cannot be used: {0}")]
    Kubeconfig(String),
    #[error("it does not answer: {0}")]
    Silent(String),
}

// === impl Versions ===

impl Versions {
    pub(super) fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// What the cluster said, if it was asked at this release.
    pub(super) fn known(&self, name: &str, hosted: &HostedCluster) -> Option<String> {
        let known = self.lock();
        let answer = known.get(name).filter(|answer| answer.of == Asked::of(hosted));
        answer.map(|answer| answer.kubernetes.clone())
    }

    /// Asks the cluster.
    pub(super) async fn ask(&self, name: &str, hosted: &HostedCluster) -> Result<String, AskError> {
        let kubeconfig = self.kubeconfig(hosted).await?;
        let silent = |error: &dyn std::error::Error| AskError::Silent(Chain(error).to_string());
        let client = connect(&kubeconfig).await?;
        let version = timeout(PATIENCE, client.apiserver_version()).await;
        let version = version.map_err(|error| silent(&error))?.map_err(|error| silent(&error))?;
        let answer = Answer { of: Asked::of(hosted), kubernetes: version.git_version.clone() };
        self.lock().insert(name.to_owned(), answer);
        Ok(version.git_version)
    }

    /// The cluster is gone.
    pub(super) fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    async fn kubeconfig(&self, hosted: &HostedCluster) -> Result<String, AskError> {
        let name = hosted.status.as_ref().and_then(|status| status.kubeconfig.as_ref());
        let name = name.ok_or(AskError::NoKubeconfig)?;
        let secrets: Api<Secret> =
            Api::namespaced(self.client.clone(), &hosted.namespace().unwrap_or_default());
        let secret = secrets.get(&name.name).await.map_err(|_| AskError::NoKubeconfig)?;
        let data = secret.data.and_then(|mut data| data.remove("kubeconfig"));
        let data = data.ok_or(AskError::NoKubeconfig)?;
        String::from_utf8(data.0).map_err(|error| AskError::Kubeconfig(error.to_string()))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Answer>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Asked ===

impl Asked {
    fn of(hosted: &HostedCluster) -> Self {
        Self { uid: hosted.uid(), release: completed_release(hosted) }
    }
}

/// The newest release that was rolled out to the end.
pub(super) fn completed_release(hosted: &HostedCluster) -> Option<String> {
    let version = hosted.status.as_ref()?.version.as_ref()?;
    let completed = version.history.iter().find(|entry| entry.state == HistoryState::Completed)?;
    Some(completed.version.clone())
}

async fn connect(kubeconfig: &str) -> Result<Client, AskError> {
    let unusable = |error: &dyn std::error::Error| AskError::Kubeconfig(Chain(error).to_string());
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(|error| unusable(&error))?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| unusable(&error))?;
    config.connect_timeout = Some(PATIENCE);
    config.default_retry = false;
    Client::try_from(config).map_err(|error| unusable(&error))
}
