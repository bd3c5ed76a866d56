//! `kubeconfig`: the way into a hosted cluster.

use anyhow::anyhow;
use pilothouse_region::HostedClusters;
use tokio::runtime;

use super::region_data::RegionArgs;
use crate::{Failure, Hint, Output};

/// Print the administrator's kubeconfig of a hosted cluster.
///
/// It works through the gateway, without any DNS. `pilothouse kubeconfig first > first.kubeconfig`, then
/// `kubectl --kubeconfig first.kubeconfig get nodes`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The cluster, by its name in the API or its DNS prefix
    cluster: String,
    #[command(flatten)]
    region: RegionArgs,
}

impl Args {
    /// Prints it.
    ///
    /// # Errors
    ///
    /// If there is no such cluster, or it has no kubeconfig yet.
    pub fn run(self, output: &mut Output) -> Result<(), Failure> {
        let data_dir = self.region.data_dir()?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let kubeconfig = runtime
            .block_on(async {
                let clusters = HostedClusters::open(&data_dir).await?;
                clusters.short_lived_kubeconfig(&data_dir, &self.cluster).await
            })
            .map_err(|error| anyhow!(error))
            .hint("`pilothouse up` starts a region; `kubectl get hostedclusters -A` lists its clusters")?;
        output.raw(kubeconfig.as_bytes())
    }
}
