//! Whether a cluster answers whoever has its kubeconfig.

use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use pilothouse_region::{DataDir, HostedClusters};
use tokio::time::{Instant, sleep};

use super::arm::LOOK;

const PATIENCE: Duration = Duration::from_secs(30);

/// Takes the kubeconfig of a cluster as `pilothouse kubeconfig` does, and asks `/readyz` with it until the answer is yes.
/// Returns how often that was asked.
pub(crate) async fn ready(data_dir: &DataDir, cluster: &str) -> anyhow::Result<u32> {
    let client = client(data_dir, cluster).await?;
    let deadline = Instant::now() + PATIENCE;
    let mut asked = 0;
    loop {
        asked += 1;
        let request = http::Request::get("/readyz").body(Vec::new())?;
        match client.request_text(request).await {
            Ok(_) => return Ok(asked),
            Err(error) if Instant::now() >= deadline => {
                return Err(error).with_context(|| format!("cluster {cluster} does not answer"));
            }
            Err(_) => sleep(LOOK).await,
        }
    }
}

/// A client with the kubeconfig of a cluster.
pub(crate) async fn client(data_dir: &DataDir, cluster: &str) -> anyhow::Result<Client> {
    let text = HostedClusters::open(data_dir).await?.kubeconfig(cluster).await?;
    let kubeconfig = Kubeconfig::from_yaml(&text)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
