//! Looking at the hosted clusters of a running region from outside: through its management cluster.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Config, ResourceExt};
use pilothouse_crds::{ConditionStatus, HostedCluster};
use serde::Serialize;

use crate::data_dir::DataDir;

#[cfg(test)]
mod tests;

/// The annotation of a `HostedCluster` that names what its owner asked for.
const RESOURCE_ID: &str = "azure.microsoft.com/hcp-cluster-azure-resource-id";

/// The hosted clusters of one region.
#[derive(Clone)]
pub struct HostedClusters {
    client: Client,
}

/// What is worth knowing about a hosted cluster at a glance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSummary {
    /// Its DNS prefix.
    pub name: String,
    /// The namespace of its `HostedCluster`.
    pub namespace: String,
    /// Whether its API server answers.
    pub available: bool,
    /// The version that it should run.
    pub version: String,
    /// How far it is, in words.
    pub state: String,
}

/// What is worth knowing about a node at a glance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// Its name.
    pub name: String,
    /// Whether it takes pods.
    pub ready: bool,
    /// The Kubernetes version it runs.
    pub version: String,
    /// Where its cluster reaches it.
    pub address: String,
}

/// Why a hosted cluster could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum HostedClustersError {
    /// There is no region, or it has never been up.
    #[error("there is no region in `{folder}`: `{file}` cannot be read")]
    NoRegion {
        /// The data directory.
        folder: String,
        /// The management cluster's kubeconfig.
        file: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// An API server did not answer, or refused.
    #[error("{who} did not answer")]
    Api {
        /// Which one.
        who: String,
        /// What went wrong.
        #[source]
        source: Box<kube::Error>,
    },
    /// There is no such cluster.
    #[error("there is no cluster `{name}`{}", there_are(.others))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        others: Vec<String>,
    },
    /// Two tenants have a cluster of this name.
    #[error("`{name}` is the name of several clusters; use a DNS prefix: {}", .prefixes.join(", "))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// By what they can be told apart.
        prefixes: Vec<String>,
    },
    /// It is not far enough to have a kubeconfig.
    #[error("cluster `{name}` has no kubeconfig yet: {state}")]
    NotYet {
        /// The cluster.
        name: String,
        /// How far it is.
        state: String,
    },
    /// The region has no Clusters Service that anybody could be told of.
    #[error("the region does not run: `{}` cannot be used: {problem}", .file.display())]
    NotRunning {
        /// What says where its services are.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Clusters Service did not answer, or with something else.
    #[error("Clusters Service did not say")]
    Unanswered {
        /// What went wrong.
        #[source]
        source: Box<pilothouse_clusters_service_api::Error>,
    },
    /// Clusters Service said no.
    #[error("cluster `{name}` gives no credential now")]
    Refused {
        /// The cluster.
        name: String,
        /// Why not.
        #[source]
        source: Box<pilothouse_clusters_service_api::Error>,
    },
    /// It was asked for, and is not signed yet.
    #[error("the credential of cluster `{name}` takes too long; {waits}")]
    TooLong {
        /// The cluster.
        name: String,
        /// What that waits for.
        waits: String,
    },
    /// Nothing was signed for it.
    #[error("cluster `{name}` gives no credential: {problem}")]
    NotIssued {
        /// The cluster.
        name: String,
        /// What is in the way.
        problem: String,
    },
    /// Its kubeconfig cannot be used.
    #[error("the kubeconfig of cluster `{name}` cannot be used")]
    Kubeconfig {
        /// The cluster.
        name: String,
        /// What is wrong with it.
        #[source]
        source: Box<KubeconfigError>,
    },
}

// === impl HostedClusters ===

impl HostedClusters {
    /// Those of the region in this folder.
    ///
    /// # Errors
    ///
    /// If it has never been up.
    pub async fn open(data_dir: &DataDir) -> Result<Self, HostedClustersError> {
        let file = data_dir.management_kubeconfig();
        let no_region = |source| HostedClustersError::NoRegion {
            folder: data_dir.root().display().to_string(),
            file: file.clone(),
            source: Box::new(source),
        };
        let kubeconfig = Kubeconfig::read_from(&file).map_err(no_region)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(no_region)?;
        let client = Client::try_from(config).map_err(api("the management cluster"))?;
        Ok(Self { client })
    }

    /// All of them.
    ///
    /// # Errors
    ///
    /// If the management cluster does not answer.
    pub async fn list(&self) -> Result<Vec<ClusterSummary>, HostedClustersError> {
        Ok(self.all().await?.iter().map(ClusterSummary::of).collect())
    }

    async fn all(&self) -> Result<Vec<HostedCluster>, HostedClustersError> {
        let listed = Api::<HostedCluster>::all(self.client.clone()).list(&ListParams::default()).await;
        Ok(listed.map_err(api("the management cluster"))?.items)
    }

    /// The administrator's kubeconfig of a cluster.
    ///
    /// # Errors
    ///
    /// If there is no such cluster, or it has none yet.
    pub async fn kubeconfig(&self, name: &str) -> Result<String, HostedClustersError> {
        let cluster = self.find(name).await?;
        let not_yet = || HostedClustersError::NotYet { name: name.to_owned(), state: state(&cluster) };
        let secret = cluster.status.as_ref().and_then(|status| status.kubeconfig.as_ref());
        let secret = secret.ok_or_else(not_yet)?;
        let secrets: Api<Secret> =
            Api::namespaced(self.client.clone(), &cluster.namespace().unwrap_or_default());
        let secret = secrets.get_opt(&secret.name).await.map_err(api("the management cluster"))?;
        let content = secret.and_then(|secret| secret.data?.remove("kubeconfig"));
        content.and_then(|content| String::from_utf8(content.0).ok()).ok_or_else(not_yet)
    }

    /// The nodes of a cluster, as its own API server sees them.
    ///
    /// # Errors
    ///
    /// If there is no such cluster, or it does not answer.
    pub async fn nodes(&self, name: &str) -> Result<Vec<NodeSummary>, HostedClustersError> {
        let text = self.kubeconfig(name).await?;
        let unusable =
            |source| HostedClustersError::Kubeconfig { name: name.to_owned(), source: Box::new(source) };
        let kubeconfig = Kubeconfig::from_yaml(&text).map_err(unusable)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(unusable)?;
        let who = format!("the API server of cluster `{name}`");
        let client = Client::try_from(config).map_err(api(&who))?;
        let nodes = Api::<Node>::all(client).list(&ListParams::default()).await.map_err(api(&who))?;
        Ok(nodes.iter().map(NodeSummary::of).collect())
    }

    pub(crate) async fn find(&self, name: &str) -> Result<HostedCluster, HostedClustersError> {
        let clusters = Api::<HostedCluster>::all(self.client.clone());
        // A prefix belongs to one cluster of the region, and whoever asks by it is not to pay for all the others.
        if is_name(name) {
            let named = ListParams::default().fields(&format!("metadata.name={name}"));
            let found = clusters.list(&named).await.map_err(api("the management cluster"))?;
            if let Some(exact) = found.items.into_iter().next() {
                return Ok(exact);
            }
        }
        // A name only within its resource group. It is written on the cluster, whose specification is not needed for that.
        let all = clusters.list_metadata(&ListParams::default()).await;
        let all = all.map_err(api("the management cluster"))?.items;
        let (found, others): (Vec<_>, Vec<_>) = all.iter().partition(|cluster| is_called(*cluster, name));
        let names = |clusters: &[&PartialObjectMeta<HostedCluster>]| {
            clusters.iter().map(|cluster| cluster.name_any()).collect()
        };
        let unknown = || HostedClustersError::Unknown { name: name.to_owned(), others: names(&others) };
        match found.as_slice() {
            [] => Err(unknown()),
            [one] => {
                let api_of: Api<HostedCluster> =
                    Api::namespaced(self.client.clone(), &one.namespace().unwrap_or_default());
                let read = api_of.get_opt(&one.name_any()).await.map_err(api("the management cluster"))?;
                read.ok_or_else(unknown)
            }
            several => {
                Err(HostedClustersError::Ambiguous { name: name.to_owned(), prefixes: names(several) })
            }
        }
    }
}

// === impl ClusterSummary ===

impl ClusterSummary {
    fn of(cluster: &HostedCluster) -> Self {
        let status = cluster.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let available = pilothouse_crds::find_condition(conditions, "Available");
        let version = status.and_then(|status| status.version.as_ref());
        Self {
            name: cluster.name_any(),
            namespace: cluster.namespace().unwrap_or_default(),
            available: available.is_some_and(|condition| condition.status == ConditionStatus::True),
            version: version.map(|version| version.desired.version.clone()).unwrap_or_default(),
            state: state(cluster),
        }
    }
}

// === impl NodeSummary ===

impl NodeSummary {
    fn of(node: &Node) -> Self {
        let status = node.status.clone().unwrap_or_default();
        let ready = status
            .conditions
            .iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let address = status.addresses.iter().flatten().find(|address| address.type_ == "InternalIP");
        Self {
            name: node.name_any(),
            ready,
            version: status.node_info.map(|info| info.kubelet_version).unwrap_or_default(),
            address: address.map(|address| address.address.clone()).unwrap_or_default(),
        }
    }
}

fn is_called(cluster: &impl ResourceExt, name: &str) -> bool {
    let asked_for = cluster.annotations().get(RESOURCE_ID).and_then(|id| id.rsplit('/').next());
    cluster.name_any() == name || asked_for.is_some_and(|asked_for| asked_for.eq_ignore_ascii_case(name))
}

/// Whether an object could have this name: what is no name means something else in a selector.
fn is_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    !name.is_empty() && name.bytes().all(letter)
}

fn state(cluster: &HostedCluster) -> String {
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    pilothouse_crds::find_condition(conditions, "Available")
        .map_or_else(|| "nothing is known about it".to_owned(), |condition| condition.message.clone())
}

fn there_are(others: &[String]) -> String {
    if others.is_empty() { String::new() } else { format!("; there are: {}", others.join(", ")) }
}

fn api(who: &str) -> impl Fn(kube::Error) -> HostedClustersError {
    move |source| HostedClustersError::Api { who: who.to_owned(), source: Box::new(source) }
}
