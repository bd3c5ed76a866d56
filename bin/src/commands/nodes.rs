//! `nodes`: the workers of a hosted cluster.

use anyhow::anyhow;
use comfy_table::Table;
use pilothouse_region::{HostedClusters, NodeSummary};
use serde::Serialize;
use tokio::runtime;

use super::region_data::RegionArgs;
use crate::output;
use crate::{Failure, Hint, Output, Render};

/// List the nodes of a hosted cluster, as its own API server sees them.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The cluster, by its name in the API or its DNS prefix
    cluster: String,
    #[command(flatten)]
    region: RegionArgs,
}

#[derive(Debug, Serialize)]
struct Nodes {
    nodes: Vec<NodeSummary>,
}

impl Args {
    /// Prints them.
    ///
    /// # Errors
    ///
    /// If there is no such cluster, or it does not answer.
    pub fn run(self, output: &mut Output) -> Result<(), Failure> {
        let data_dir = self.region.data_dir()?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let nodes = runtime
            .block_on(async { HostedClusters::open(&data_dir).await?.nodes(&self.cluster).await })
            .map_err(|error| anyhow!(error))
            .hint("`pilothouse up` starts a region; `kubectl get hostedclusters -A` lists its clusters")?;
        output.show(&Nodes { nodes })
    }
}

impl Render for Nodes {
    fn table(&self) -> Table {
        let rows = self.nodes.iter().map(|node| {
            let state = if node.ready { "Ready" } else { "NotReady" };
            [node.name.as_str(), state, &node.version, &node.address]
        });
        output::table(["NAME", "STATUS", "VERSION", "ADDRESS"], rows)
    }
}
