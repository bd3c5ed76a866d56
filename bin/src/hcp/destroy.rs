//! `destroy`: what is no longer to be there.

use clap::Subcommand;

use crate::Failure;

mod cluster;
mod node_pool;

/// Destroy hosted clusters and node pools.
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
}

impl Args {
    pub(super) async fn run(self) -> Result<(), Failure> {
        match self.what {
            What::Cluster(args) => Box::pin(args.run()).await,
            What::NodePool(args) => args.run().await,
        }
    }
}
