//! `create kubeconfig`: the way into hosted clusters.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt as _};
use pilothouse_crds::HostedCluster;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::hcp::client::{self, ClientArgs};
use crate::hcp::values;
use crate::{Failure, Hint, Output};

/// Print the administrator's kubeconfig of a hosted cluster.
///
/// Without --name it is one for all hosted clusters of the namespace, with a context for each.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The hosted cluster; all of the namespace if absent
    #[arg(long, value_parser = values::label)]
    name: Option<String>,
    /// Its namespace
    #[arg(long, default_value = "clusters", value_parser = values::label)]
    namespace: String,
    /// How long to wait for a cluster that has none yet
    #[arg(long, value_name = "SPAN", default_value = "2m", value_parser = values::duration)]
    timeout: Duration,
    #[command(flatten)]
    client: ClientArgs,
}

impl Args {
    pub(super) async fn run(self, output: &mut Output) -> Result<(), Failure> {
        let client = self.client.connect().await?;
        let text = match &self.name {
            Some(name) => self.of(&client, name).await?,
            None => self.of_all(&client).await?,
        };
        output.raw(text.as_bytes())
    }

    /// That of one cluster, once there is one.
    async fn of(&self, client: &Client, name: &str) -> Result<String, Failure> {
        client::known_hosted_cluster(client, &self.namespace, name).await?;
        let clusters: Api<HostedCluster> = Api::namespaced(client.clone(), &self.namespace);
        let has_one =
            |cluster: Option<&HostedCluster>| cluster.is_none_or(|cluster| secret_of(cluster).is_some());
        let waited = timeout(self.timeout, await_condition(clusters, name, has_one)).await;
        let cluster = match waited {
            Ok(found) => found.context("the hosted cluster could not be watched")?,
            Err(_) => {
                return Err(anyhow!(
                    "HostedCluster {}/{name} has no kubeconfig after {}",
                    self.namespace,
                    values::write_duration(self.timeout)
                ))
                .hint(format!(
                    "`kubectl describe hostedcluster {name} -n {}` says what it waits for",
                    self.namespace
                ));
            }
        };
        let secret = cluster.as_ref().and_then(secret_of);
        let secret = secret
            .ok_or_else(|| anyhow!("HostedCluster {}/{name} is gone", self.namespace))
            .hint("somebody deleted it meanwhile")?;
        self.read(client, secret).await
    }

    /// One for every cluster of the namespace that has one.
    async fn of_all(&self, client: &Client) -> Result<String, Failure> {
        let clusters: Api<HostedCluster> = Api::namespaced(client.clone(), &self.namespace);
        let clusters =
            client::explain(clusters.list(&ListParams::default()).await, "the list of hosted clusters")?;
        let mut merged = Merged::default();
        for cluster in &clusters.items {
            let name = cluster.name_any();
            match secret_of(cluster) {
                Some(secret) => merged.add(&self.namespace, &name, &self.read(client, secret).await?)?,
                None => {
                    client::tell(&format!("HostedCluster {}/{name} has no kubeconfig yet", self.namespace))
                }
            }
        }
        if merged.contexts.is_empty() {
            return Err(anyhow!("no HostedCluster in namespace {} has a kubeconfig", self.namespace))
                .hint("`kubectl get hostedclusters -A` lists all; --namespace names another namespace");
        }
        merged.write()
    }

    async fn read(&self, client: &Client, name: &str) -> Result<String, Failure> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &self.namespace);
        let secret = client::explain(secrets.get(name).await, &format!("Secret {}/{name}", self.namespace))?;
        let text = secret.data.unwrap_or_default().remove("kubeconfig");
        let text = text
            .ok_or_else(|| anyhow!("Secret {}/{name} has no key `kubeconfig`", self.namespace))
            .hint("delete it: the operator makes it anew")?;
        Ok(String::from_utf8(text.0).context("the kubeconfig is no text")?)
    }
}

/// The Secret that a cluster names.
fn secret_of(cluster: &HostedCluster) -> Option<&str> {
    let named = cluster.status.as_ref()?.kubeconfig.as_ref()?;
    (!named.name.is_empty()).then_some(named.name.as_str())
}

/// Several kubeconfigs as one.
#[derive(Default)]
struct Merged {
    clusters: Vec<Value>,
    users: Vec<Value>,
    contexts: Vec<Value>,
}

impl Merged {
    fn add(&mut self, namespace: &str, name: &str, text: &str) -> Result<(), Failure> {
        let one: Value = serde_saphyr::from_str(text)
            .with_context(|| format!("the kubeconfig of {namespace}/{name} is not understood"))?;
        let context = format!("{namespace}-{name}");
        let user = format!("{context}-admin");
        self.clusters.push(json!({ "name": context, "cluster": one["clusters"][0]["cluster"] }));
        self.users.push(json!({ "name": user, "user": one["users"][0]["user"] }));
        self.contexts.push(json!({ "name": context, "context": { "cluster": context, "user": user } }));
        Ok(())
    }

    fn write(&self) -> Result<String, Failure> {
        let merged = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": self.clusters,
            "users": self.users,
            "contexts": self.contexts,
            "current-context": self.contexts.first().map(|context| &context["name"]),
            "preferences": {},
        });
        Ok(serde_saphyr::to_string(&merged)?)
    }
}
