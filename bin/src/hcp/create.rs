//! `create`: what is to be there.

use clap::Subcommand;

use crate::{Failure, Output};

mod cluster;
mod kubeconfig;
mod node_pool;
mod platform;

/// Create hosted clusters, node pools, and the way into them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Cluster(cluster::Args),
    #[command(name = "nodepool")]
    NodePool(node_pool::Args),
    Kubeconfig(kubeconfig::Args),
}

impl Args {
    pub(super) async fn run(self, output: &mut Output) -> Result<(), Failure> {
        match self.what {
            What::Cluster(args) => args.run(output).await,
            What::NodePool(args) => args.run(output).await,
            What::Kubeconfig(args) => args.run(output).await,
        }
    }
}
