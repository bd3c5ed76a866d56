//! `destroy cluster`: a hosted cluster goes, with all that was made for it.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt as _};
use pilothouse_crds::{HostedCluster, PlatformType};
use serde_json::json;
use tokio::time::timeout;

use crate::hcp::client::{self, ClientArgs};
use crate::hcp::{objects, values};
use crate::{Failure, Hint};

/// Says that what the cluster made in its cloud goes with it.
const CLEAN_UP: &str = "hypershift.openshift.io/cleanup-cloud-resources";

/// Destroy a hosted cluster, with its node pools and the secrets that were made for it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The platform of the hosted cluster
    platform: Platform,
    /// The hosted cluster
    #[arg(long, value_parser = values::label)]
    name: String,
    /// Its namespace
    #[arg(long, default_value = "clusters", value_parser = values::label)]
    namespace: String,
    /// How long the cluster may take to go
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = values::duration)]
    cluster_grace_period: Duration,
    /// Whether what the cluster made in its cloud goes with it
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    destroy_cloud_resources: bool,
    /// What the cluster's infrastructure is named after; needed only if the cluster is gone already
    #[arg(long, value_name = "ID")]
    infra_id: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Platform {
    #[value(name = "kubevirt")]
    KubeVirt,
    None,
}

impl Args {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let Self { name, namespace, .. } = &self;
        let client = self.client.connect().await?;
        let cluster = client::hosted_cluster(&client, namespace, name).await?;
        let found = cluster.as_ref().and_then(|cluster| cluster.spec.infra_id.clone());
        match &cluster {
            Some(cluster) => self.delete(&client, cluster).await?,
            None if self.infra_id.is_some() => {
                client::tell(&format!("HostedCluster {namespace}/{name} is gone already"));
            }
            None => {
                return Err(anyhow!("there is no HostedCluster {namespace}/{name}")).hint(
                    "`kubectl get hostedclusters -A` lists those there are; to clean up after one that is gone, add --infra-id",
                );
            }
        }
        if let Some(infra_id) = self.infra_id.clone().or(found) {
            self.delete_secrets(&client, &infra_id).await?;
        }
        Ok(())
    }

    /// Deletes the cluster, and waits until it is gone.
    async fn delete(&self, client: &Client, cluster: &HostedCluster) -> Result<(), Failure> {
        let Self { name, namespace, .. } = self;
        let what = format!("HostedCluster {namespace}/{name}");
        let asked = match self.platform {
            Platform::KubeVirt => PlatformType::KubeVirt,
            Platform::None => PlatformType::None,
        };
        if cluster.spec.platform.type_ != asked {
            return Err(anyhow!("{what} is of platform {:?}", cluster.spec.platform.type_))
                .hint("name that platform, so that nothing of it is left behind; or is it another cluster you mean?");
        }
        let clusters: Api<HostedCluster> = Api::namespaced(client.clone(), namespace);
        if self.destroy_cloud_resources {
            let annotated = json!({ "metadata": { "annotations": { CLEAN_UP: "true" } } });
            let answer = clusters.patch(name, &PatchParams::default(), &Patch::Merge(annotated)).await;
            client::explain(answer, &format!("the annotation of {what}"))?;
        }
        match clusters.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            answer => drop(client::explain(answer, &format!("the deletion of {what}"))?),
        }
        client::tell(&format!("{what} is being deleted"));
        let uid = cluster.uid().unwrap_or_default();
        let gone = conditions::is_deleted(&uid);
        match timeout(self.cluster_grace_period, await_condition(clusters.clone(), name, gone)).await {
            Ok(waited) => drop(waited.context("the hosted cluster could not be watched")?),
            Err(_) => {
                let left = clusters.get_opt(name).await.ok().flatten().unwrap_or_else(|| cluster.clone());
                return Err(anyhow!(
                    "{what} is still there after {}, held by {}",
                    values::write_duration(self.cluster_grace_period),
                    left.finalizers().join(", ")
                ))
                .hint(format!(
                    "its conditions say what it waits for: `kubectl describe hostedcluster {name} -n {namespace}`; \
                     the same command again goes on waiting"
                ));
            }
        }
        client::tell(&format!("{what} deleted"));
        Ok(())
    }

    /// Deletes what was made for the cluster and is no longer of use.
    async fn delete_secrets(&self, client: &Client, infra_id: &str) -> Result<(), Failure> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &self.namespace);
        let selector = ListParams::default().labels(&format!("{}={infra_id}", objects::INFRASTRUCTURE));
        let found = client::explain(secrets.list(&selector).await, "the list of secrets")?;
        for secret in found {
            let name = secret.name_any();
            match secrets.delete(&name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                answer => drop(client::explain(answer, &format!("the deletion of Secret {name}"))?),
            }
            client::tell(&format!("Secret {}/{name} deleted", self.namespace));
        }
        Ok(())
    }
}
