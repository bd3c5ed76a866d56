//! `create cluster`: a hosted cluster, and a node pool for it.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use self::settings::SettingsArgs;
use super::platform::Platform;
use crate::hcp::client::{self, ClientArgs};
use crate::hcp::kubevirt::MachineArgs;
use crate::hcp::objects::{self, Publishing};
use crate::hcp::{progress, render, values};
use crate::{Failure, Hint, Output};

mod plan;
mod settings;

/// How long it is waited if nobody says how long.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// Create a hosted cluster.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    platform: Platform<KubeVirtArgs, NoneArgs>,
}

/// Create a hosted cluster whose nodes are virtual machines of KubeVirt
#[derive(Debug, clap::Args)]
struct KubeVirtArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    machines: MachineArgs,
    /// The kubeconfig of another cluster that the machines run on
    #[arg(long, value_name = "FILE", requires = "infra_namespace")]
    infra_kubeconfig_file: Option<std::path::PathBuf>,
    /// The namespace there
    #[arg(long, value_name = "NAMESPACE", requires = "infra_kubeconfig_file")]
    infra_namespace: Option<String>,
    /// Storage classes: <infra class>/<guest class>[,group=<group>]
    #[arg(long, value_name = "MAPPING", value_parser = mapping)]
    infra_storage_class_mapping: Vec<Mapping>,
    /// Snapshot classes: <infra class>/<guest class>[,group=<group>]
    #[arg(long, value_name = "MAPPING", value_parser = mapping)]
    infra_volumesnapshot_class_mapping: Vec<Mapping>,
    #[command(flatten)]
    doing: DoingArgs,
}

/// Create a hosted cluster whose nodes its users bring
#[derive(Debug, clap::Args)]
struct NoneArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The address of the nodes that publish the control plane; the first node's if absent
    #[arg(long, value_name = "ADDRESS", conflicts_with = "expose_through_load_balancer")]
    external_api_server_address: Option<String>,
    /// Publish the API server by a load balancer instead of a port of the nodes
    #[arg(long)]
    expose_through_load_balancer: bool,
    #[command(flatten)]
    doing: DoingArgs,
}

/// What is done with the objects.
#[derive(Debug, clap::Args)]
struct DoingArgs {
    /// Print the objects as YAML instead of applying them
    #[arg(long)]
    render: bool,
    /// Write the objects as YAML into a file instead of applying them
    #[arg(long, value_name = "FILE")]
    render_into: Option<std::path::PathBuf>,
    /// Print secrets as well
    #[arg(long)]
    render_sensitive: bool,
    /// Wait until the cluster and its nodes are there
    #[arg(long)]
    wait: bool,
    /// How long to wait; 0s for half an hour
    #[arg(long, value_name = "SPAN", default_value = "0s", value_parser = values::duration)]
    timeout: Duration,
    #[command(flatten)]
    client: ClientArgs,
}

/// A class here that stands for one there.
#[derive(Clone, Debug)]
struct Mapping {
    infra: String,
    guest: String,
    group: Option<String>,
}

/// What a platform adds to the settings.
struct OfPlatform {
    /// `platform` of the cluster.
    cluster: Value,
    /// `platform` of the pool.
    pool: Value,
    /// How nodes change if nobody says how.
    upgrade_type: &'static str,
    publishing: Publishing,
    /// What is needed before the cluster.
    objects: Vec<Value>,
}

impl Args {
    pub(super) async fn run(self, output: &mut Output) -> Result<(), Failure> {
        match self.platform {
            Platform::KubeVirt(args) => {
                let platform = args.platform()?;
                carry_out(&args.settings, &args.doing, platform, None, output).await
            }
            Platform::None(args) => {
                let mut client = None;
                let publishing = match (&args.external_api_server_address, args.expose_through_load_balancer)
                {
                    (Some(address), _) => Publishing::NodePorts { address: address.clone() },
                    (None, true) => Publishing::Ingress,
                    (None, false) => {
                        let connected = args.doing.client.connect().await?;
                        let address = node_address(&connected).await?;
                        client = Some(connected);
                        Publishing::NodePorts { address }
                    }
                };
                let platform = OfPlatform {
                    cluster: json!({ "type": "None" }),
                    pool: json!({ "type": "None" }),
                    upgrade_type: "InPlace",
                    publishing,
                    objects: Vec::new(),
                };
                carry_out(&args.settings, &args.doing, platform, client, output).await
            }
        }
    }
}

impl KubeVirtArgs {
    fn platform(&self) -> Result<OfPlatform, Failure> {
        let SettingsArgs { name, namespace, .. } = &self.settings;
        let mut kubevirt = json!({ "baseDomainPassthrough": self.settings.base_domain.is_none() });
        let mut extra = Vec::new();
        if let (Some(file), Some(infra_namespace)) = (&self.infra_kubeconfig_file, &self.infra_namespace) {
            let text =
                std::fs::read(file).with_context(|| format!("{} cannot be read", file.display())).hint(
                    "--infra-kubeconfig-file takes the kubeconfig of the cluster that the machines run on",
                )?;
            let secret = format!("{name}-infra-credentials");
            extra.push(objects::secret(namespace, &secret, None, &[("kubeconfig", &text)]));
            kubevirt["credentials"] = json!({
                "infraKubeConfigSecret": { "name": secret, "key": "kubeconfig" },
                "infraNamespace": infra_namespace,
            });
        }
        let classes = &self.infra_storage_class_mapping;
        let snapshots = &self.infra_volumesnapshot_class_mapping;
        if !classes.is_empty() || !snapshots.is_empty() {
            let write = |mappings: &[Mapping], kind: &str| -> Value {
                mappings.iter().map(|mapping| mapping.write(kind)).collect()
            };
            let mut manual = json!({});
            if !classes.is_empty() {
                manual["storageClassMapping"] = write(classes, "StorageClassName");
            }
            if !snapshots.is_empty() {
                manual["volumeSnapshotClassMapping"] = write(snapshots, "VolumeSnapshotClassName");
            }
            kubevirt["storageDriver"] = json!({ "type": "Manual", "manual": manual });
        }
        let publishing = match &self.settings.external_dns_domain {
            Some(domain) => Publishing::Hosts { cluster: name.clone(), domain: domain.clone() },
            None => Publishing::Ingress,
        };
        Ok(OfPlatform {
            cluster: json!({ "kubevirt": kubevirt, "type": "KubeVirt" }),
            pool: self.machines.platform(),
            upgrade_type: "Replace",
            publishing,
            objects: extra,
        })
    }
}

impl Mapping {
    fn write(&self, kind: &str) -> Value {
        let mut mapping = json!({ format!("infra{kind}"): self.infra, format!("guest{kind}"): self.guest });
        if let Some(group) = &self.group {
            mapping["group"] = json!(group);
        }
        mapping
    }
}

/// Draws up the objects, and prints them or makes them.
async fn carry_out(
    settings: &SettingsArgs,
    doing: &DoingArgs,
    platform: OfPlatform,
    client: Option<Client>,
    output: &mut Output,
) -> Result<(), Failure> {
    if doing.wait && settings.node_pool_replicas <= 0 {
        return Err(anyhow!("--wait needs nodes to wait for"))
            .hint("add --node-pool-replicas with a number above 0, or leave out --wait");
    }
    if doing.render || doing.render_into.is_some() {
        let image = match &settings.release_image {
            Some(image) => image.clone(),
            None => plan::newest_release(&doing.client.connect().await?).await?,
        };
        let plan = plan::Plan::draw(settings, platform, image)?;
        let mut objects = plan.objects;
        objects.retain(|object| doing.render_sensitive || !objects::is_sensitive(object));
        let text = render::yaml(&objects)?;
        return match &doing.render_into {
            Some(file) => std::fs::write(file, text)
                .with_context(|| format!("{} cannot be written", file.display()))
                .hint("--render-into takes a file in a folder that is there"),
            None => output.raw(text.as_bytes()),
        };
    }
    // What can be wrong with the files is told before anybody is asked.
    settings.check_files()?;
    let client = match client {
        Some(client) => client,
        None => doing.client.connect().await?,
    };
    let image = match &settings.release_image {
        Some(image) => image.clone(),
        None => plan::newest_release(&client).await?,
    };
    let bring_nodes = platform.pool["type"] == "None" && settings.node_pool_replicas >= 0;
    let mut plan = plan::Plan::draw(settings, platform, image)?;
    let SettingsArgs { name, namespace, .. } = settings;
    if client::hosted_cluster(&client, namespace, name).await?.is_some() {
        return Err(client::taken(&format!("HostedCluster {namespace}/{name}")));
    }
    for object in &mut plan.objects {
        objects::label_infrastructure(object, &plan.infra_id);
        match object["kind"].as_str() {
            Some("HostedCluster") => client::create(&client, object).await?,
            _ => client::apply(&client, object).await?,
        }
    }
    if doing.wait {
        let limit = if doing.timeout.is_zero() { PATIENCE } else { doing.timeout };
        progress::wait(&client, namespace, name, limit).await?;
    } else {
        client::tell(&format!("`kubectl get hostedcluster {name} -n {namespace} -w` shows how it comes up"));
        if bring_nodes {
            client::tell(&format!(
                "how nodes join is the message of its pool: `kubectl get nodepool {name} -n {namespace}`"
            ));
        }
    }
    Ok(())
}

/// The address of the first node that has one: what is known outside first.
async fn node_address(client: &Client) -> Result<String, Failure> {
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = client::explain(nodes.list(&ListParams::default()).await, "the list of nodes")?;
    let addresses = nodes.items.first().and_then(|node| node.status.as_ref()?.addresses.clone());
    let addresses = addresses.unwrap_or_default();
    ["ExternalDNS", "ExternalIP", "InternalIP"]
        .iter()
        .find_map(|kind| addresses.iter().find(|address| address.type_ == *kind))
        .map(|address| address.address.clone())
        .ok_or_else(|| anyhow!("the management cluster has no node with an address"))
        .hint("--external-api-server-address names the address that reaches the management cluster's nodes")
}

fn mapping(text: &str) -> Result<Mapping, String> {
    let wrong = || "a mapping is written <infra class>/<guest class>[,group=<group>]".to_owned();
    let (classes, group) = match text.split_once(",group=") {
        Some((classes, group)) => (classes, Some(group.to_owned())),
        None => (text, None),
    };
    let (infra, guest) = classes.split_once('/').ok_or_else(wrong)?;
    if infra.is_empty() || guest.is_empty() {
        return Err(wrong());
    }
    Ok(Mapping { infra: infra.to_owned(), guest: guest.to_owned(), group })
}
