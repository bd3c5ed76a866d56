//! `create nodepool`: more nodes for a hosted cluster.

use anyhow::anyhow;
use kube::Api;
use pilothouse_crds::{NodePool, PlatformType};
use serde_json::{Value, json};

use super::platform::Platform;
use crate::hcp::client::{self, ClientArgs};
use crate::hcp::kubevirt::MachineArgs;
use crate::hcp::{objects, render, values};
use crate::{Failure, Hint, Output};

/// Create a node pool of a hosted cluster.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    platform: Platform<KubeVirtArgs, PoolArgs>,
}

/// Create a node pool of virtual machines of KubeVirt
#[derive(Debug, clap::Args)]
struct KubeVirtArgs {
    #[command(flatten)]
    pool: PoolArgs,
    #[command(flatten)]
    machines: MachineArgs,
}

/// Create a node pool whose nodes its users bring
#[derive(Debug, clap::Args)]
struct PoolArgs {
    /// The node pool's name
    #[arg(long, value_parser = values::label)]
    name: String,
    /// The namespace of the hosted cluster and its node pools
    #[arg(long, default_value = "clusters", value_parser = values::label)]
    namespace: String,
    /// The hosted cluster
    #[arg(long, default_value = "example", value_parser = values::label)]
    cluster_name: String,
    /// How many nodes
    #[arg(long, alias = "node-count", default_value_t = 2, value_parser = clap::value_parser!(i32).range(0..))]
    replicas: i32,
    /// The release of the nodes; the hosted cluster's if absent
    #[arg(long, value_name = "IMAGE")]
    release_image: Option<String>,
    /// Whether nodes are made anew or changed in place
    #[arg(long, value_name = "TYPE", value_parser = ["Replace", "InPlace"])]
    node_upgrade_type: Option<String>,
    /// The processors of the nodes
    #[arg(long, default_value = "amd64", value_parser = ["amd64", "arm64", "ppc64le", "s390x"])]
    arch: String,
    /// Replace nodes that are sick
    #[arg(long)]
    auto_repair: bool,
    /// Print the object as YAML instead of applying it
    #[arg(long)]
    render: bool,
    #[command(flatten)]
    client: ClientArgs,
}

impl Args {
    pub(super) async fn run(self, output: &mut Output) -> Result<(), Failure> {
        match self.platform {
            Platform::KubeVirt(args) => {
                let platform = args.machines.platform();
                args.pool.run(PlatformType::KubeVirt, platform, "Replace", output).await
            }
            Platform::None(pool) => {
                pool.run(PlatformType::None, json!({ "type": "None" }), "InPlace", output).await
            }
        }
    }
}

impl PoolArgs {
    async fn run(
        self,
        type_: PlatformType,
        platform: Value,
        upgrade_type: &str,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let Self { name, namespace, cluster_name, .. } = &self;
        if let (true, Some(image)) = (self.render, &self.release_image) {
            let pool = self.object(platform, upgrade_type, image);
            return output.raw(render::yaml(&[pool])?.as_bytes());
        }
        let client = self.client.connect().await?;
        let cluster = client::known_hosted_cluster(&client, namespace, cluster_name).await?;
        if cluster.spec.platform.type_ != type_ {
            return Err(anyhow!(
                "HostedCluster {namespace}/{cluster_name} is of platform {:?}",
                cluster.spec.platform.type_
            ))
            .hint("a node pool is of the platform of its cluster: `hcp create nodepool` with that platform");
        }
        let image = self.release_image.as_ref().unwrap_or(&cluster.spec.release.image);
        let pool = self.object(platform, upgrade_type, image);
        if self.render {
            return output.raw(render::yaml(&[pool])?.as_bytes());
        }
        let pools: Api<NodePool> = Api::namespaced(client.clone(), namespace);
        if client::explain(pools.get_opt(name).await, "the question for the node pool")?.is_some() {
            return Err(client::taken(&format!("NodePool {namespace}/{name}")));
        }
        client::create(&client, &pool).await?;
        if type_ == PlatformType::None {
            client::tell(&format!(
                "how its nodes join is the message of its condition Ready: `kubectl get nodepool {name} -n {namespace}`"
            ));
        }
        output.raw(format!("NodePool {name} created\n").as_bytes())
    }

    fn object(&self, platform: Value, upgrade_type: &str, image: &str) -> Value {
        let upgrade_type = self.node_upgrade_type.as_deref().unwrap_or(upgrade_type);
        let spec = json!({
            "arch": self.arch,
            "clusterName": self.cluster_name,
            "management": { "autoRepair": self.auto_repair, "upgradeType": upgrade_type },
            "platform": platform,
            "release": { "image": image },
            "replicas": self.replicas,
        });
        objects::node_pool(&self.namespace, &self.name, spec)
    }
}
