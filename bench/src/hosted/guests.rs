//! Hosted clusters in a management cluster, as `hcp` makes them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::await_condition;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config};
use pilothouse_crds::{HostedCluster, NodePool, is_condition_true};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

const NAMESPACE: &str = "bench";
const RELEASE: &str = "quay.io/openshift-release-dev/ocp-release:4.20.0";
/// How long one cluster, or its nodes, may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often an API server that has just been said to be available is asked.
const LOOK: Duration = Duration::from_millis(1);

/// The hosted clusters of one benchmark.
pub(super) struct Guests {
    client: Client,
}

/// How long a cluster took, both since its creation was sent.
pub(super) struct Made {
    pub(super) available: Duration,
    pub(super) answering: Duration,
}

impl Guests {
    /// Makes what every cluster refers to.
    pub(super) async fn open(kubeconfig: &Path) -> anyhow::Result<Self> {
        let client = connect(Kubeconfig::read_from(kubeconfig)?).await?;
        let namespace = json!({ "metadata": { "name": NAMESPACE } });
        create::<Namespace>(&Api::all(client.clone()), namespace).await?;
        let secret = json!({
            "metadata": { "name": "pull-secret" }, "stringData": { ".dockerconfigjson": r#"{"auths":{}}"# },
        });
        create::<Secret>(&Api::namespaced(client.clone(), NAMESPACE), secret).await?;
        Ok(Self { client })
    }

    /// Makes a cluster, and waits until it is available and its API server says that it is ready.
    pub(super) async fn create(&self, name: &str) -> anyhow::Result<Made> {
        let clusters = self.clusters();
        let cluster = json!({
            "metadata": { "name": name },
            "spec": {
                "release": { "image": RELEASE },
                "platform": { "type": "KubeVirt", "kubevirt": { "baseDomainPassthrough": true } },
                "controllerAvailabilityPolicy": "SingleReplica",
                "pullSecret": { "name": "pull-secret" },
                "sshKey": {},
                "dns": { "baseDomain": "" },
                "networking": {
                    "clusterNetwork": [{ "cidr": "10.132.0.0/14" }],
                    "serviceNetwork": [{ "cidr": "172.31.0.0/16" }],
                    "networkType": "OVNKubernetes",
                },
                "etcd": {
                    "managementType": "Managed",
                    "managed": { "storage": {
                        "type": "PersistentVolume", "persistentVolume": { "size": "8Gi" },
                    } },
                },
                "services": [
                    { "service": "APIServer", "servicePublishingStrategy": { "type": "LoadBalancer" } },
                    { "service": "Ignition", "servicePublishingStrategy": { "type": "Route" } },
                    { "service": "Konnectivity", "servicePublishingStrategy": { "type": "Route" } },
                    { "service": "OAuthServer", "servicePublishingStrategy": { "type": "Route" } },
                ],
            },
        });
        // The watch is set up meanwhile, so that the figure has no part of that.
        let available = |cluster: Option<&HostedCluster>| {
            let status = cluster.and_then(|cluster| cluster.status.as_ref());
            status.is_some_and(|status| is_condition_true(&status.conditions, "Available"))
        };
        let waiting = await_condition(clusters.clone(), name, available);
        let making = async {
            let start = Instant::now();
            create(&clusters, cluster).await?;
            anyhow::Ok(start)
        };
        let waiting = async {
            let found = timeout(PATIENCE, waiting).await;
            let found = found.with_context(|| "the cluster does not become available".to_owned())??;
            anyhow::Ok((found, Instant::now()))
        };
        let ((found, at), start) = futures::try_join!(waiting, making)?;
        let found = found.context("the cluster is gone")?;
        let guest = self.guest(&found).await?;
        ready(&guest).await?;
        Ok(Made { available: at - start, answering: start.elapsed() })
    }

    /// Makes a pool of three nodes, and waits until all of them are ready, as the cluster itself says.
    pub(super) async fn three_nodes(&self, cluster: &str) -> anyhow::Result<Duration> {
        let guest = self.guest(&self.clusters().get(cluster).await?).await?;
        let nodes = watcher(Api::<Node>::all(guest), watcher::Config::default());
        let mut nodes = std::pin::pin!(nodes.applied_objects());
        let pool = json!({
            "metadata": { "name": cluster },
            "spec": {
                "clusterName": cluster,
                "replicas": 3,
                "release": { "image": RELEASE },
                "management": { "upgradeType": "Replace", "autoRepair": false },
                "platform": { "type": "KubeVirt", "kubevirt": {
                    "compute": { "cores": 2, "memory": "4Gi" },
                    "rootVolume": { "type": "Persistent", "persistent": { "size": "32Gi" } },
                } },
            },
        });
        let start = Instant::now();
        create::<NodePool>(&Api::namespaced(self.client.clone(), NAMESPACE), pool).await?;
        let mut ready = std::collections::BTreeSet::new();
        let all = async {
            while ready.len() < 3 {
                let node = nodes.next().await.context("the watch has ended")??;
                if is_ready(&node) {
                    ready.extend(node.metadata.name);
                }
            }
            anyhow::Ok(())
        };
        timeout(PATIENCE, all).await.context("the nodes do not become ready")??;
        Ok(start.elapsed())
    }

    /// A client of a hosted cluster, with the kubeconfig that it names.
    async fn guest(&self, cluster: &HostedCluster) -> anyhow::Result<Client> {
        let status = cluster.status.as_ref().context("the cluster has no status")?;
        let name = status.kubeconfig.as_ref().context("the cluster has no kubeconfig")?;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), NAMESPACE);
        let data = secrets.get(&name.name).await?.data.unwrap_or_default();
        let text = data.get("kubeconfig").context("the Secret holds no kubeconfig")?;
        connect(Kubeconfig::from_yaml(std::str::from_utf8(&text.0)?)?).await
    }

    fn clusters(&self) -> Api<HostedCluster> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

async fn ready(guest: &Client) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let request = http::Request::get("/readyz").body(Vec::new())?;
        match guest.request_text(request).await {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() >= deadline => bail!("the cluster does not answer: {error}"),
            Err(_) => sleep(LOOK).await,
        }
    }
}

async fn connect(kubeconfig: Kubeconfig) -> anyhow::Result<Client> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<()>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}
