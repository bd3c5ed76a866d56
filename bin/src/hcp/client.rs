//! The way to a management cluster.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{GroupVersionKind, TypeMeta};
use kube::{Api, Client, Config};
use pilothouse_crds::HostedCluster;
use serde_json::Value;

use crate::{Failure, Hint};

/// Whose fields these are; the same as upstream's, so that either program can go on with what the other made.
const MANAGER: &str = "hypershift-cli";

/// Which management cluster.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct ClientArgs {
    /// The kubeconfig of the management cluster; without it that of KUBECONFIG, as for kubectl
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl ClientArgs {
    /// A client for it.
    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        let options = KubeConfigOptions::default();
        let config = match &self.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file)
                    .with_context(|| format!("{} is no kubeconfig", file.display()))
                    .hint("--kubeconfig takes a file that kubectl understands, too")?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(anyhow::Error::from)
            }
            None => Config::infer().await.map_err(anyhow::Error::from),
        };
        let mut config = config
            .context("there is no way to a management cluster")
            .hint("set KUBECONFIG or --kubeconfig to the kubeconfig of the management cluster")?;
        // A watch may be silent for as long as nothing happens; whoever waits has a limit of their own.
        config.read_timeout = None;
        Client::try_from(config)
            .context("the kubeconfig does not make a client")
            .hint("`kubectl get namespaces` with the same kubeconfig says more")
    }
}

/// Turns what the API server said into something to act on.
pub(super) fn explain<T>(answer: Result<T, kube::Error>, what: &str) -> Result<T, Failure> {
    match answer {
        Ok(value) => Ok(value),
        Err(kube::Error::Api(status)) => {
            let hint = match status.code {
                401 => "the management cluster does not know you: is the kubeconfig up to date?",
                403 => "ask whoever looks after the management cluster for the right to do this",
                404 => "does the management cluster serve hosted clusters? `kubectl get crd` shows its kinds",
                422 => "mend what the message names and try again",
                _ => "try again; `kubectl get events` may say more",
            };
            Err(anyhow!(status.message.clone())).with_context(|| format!("{what} was refused")).hint(hint)
        }
        Err(error) => Err(error)
            .with_context(|| format!("{what} did not reach the management cluster"))
            .hint("is it running, and is KUBECONFIG the right one? `kubectl get namespaces` should answer"),
    }
}

/// Applies an object; what is there already is changed to be like it.
pub(super) async fn apply(client: &Client, object: &Value) -> Result<(), Failure> {
    let (api, object) = target(client, object)?;
    let name = object.metadata.name.clone().unwrap_or_default();
    let parameters = PatchParams::apply(MANAGER).force();
    let what = describe(&object);
    explain(api.patch(&name, &parameters, &Patch::Apply(&object)).await, &what)?;
    tell(&format!("{what} applied"));
    Ok(())
}

/// Makes an object that must not be there yet.
pub(super) async fn create(client: &Client, object: &Value) -> Result<(), Failure> {
    let (api, object) = target(client, object)?;
    let what = describe(&object);
    let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&parameters, &object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => return Err(taken(&what)),
        answer => explain(answer, &what)?,
    };
    tell(&format!("{what} created"));
    Ok(())
}

/// The hosted cluster of this name, if there is one.
pub(super) async fn hosted_cluster(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<HostedCluster>, Failure> {
    let clusters: Api<HostedCluster> = Api::namespaced(client.clone(), namespace);
    explain(clusters.get_opt(name).await, &format!("the question for HostedCluster {namespace}/{name}"))
}

/// The hosted cluster of this name, which has to be there.
pub(super) async fn known_hosted_cluster(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<HostedCluster, Failure> {
    hosted_cluster(client, namespace, name)
        .await?
        .ok_or_else(|| anyhow!("there is no HostedCluster {namespace}/{name}"))
        .hint("`kubectl get hostedclusters -A` lists those there are; --namespace names another namespace")
}

/// That a name is in use.
pub(super) fn taken(what: &str) -> Failure {
    let outcome: Result<(), _> = Err(anyhow!("{what} exists already"));
    match outcome.hint("take another --name or --namespace, or destroy the one that is there first") {
        Err(failure) => failure,
        Ok(()) => Failure::from(anyhow!("{what} exists already")),
    }
}

/// Says something to people, on standard error.
pub(super) fn tell(text: &str) {
    // Nobody is left to tell if standard error is gone.
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn describe(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map(|types| types.kind.as_str()).unwrap_or_default();
    let name = object.metadata.name.as_deref().unwrap_or_default();
    match object.metadata.namespace.as_deref() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Where an object goes. Its plural needs no asking: these kinds are known.
fn target(client: &Client, object: &Value) -> Result<(Api<DynamicObject>, DynamicObject), Failure> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let types =
        object.types.clone().unwrap_or_else(|| TypeMeta { api_version: String::new(), kind: String::new() });
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let api = match object.metadata.namespace.as_deref() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    Ok((api, object))
}
