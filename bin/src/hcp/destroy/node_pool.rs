//! `destroy nodepool`: the nodes of a pool leave their cluster.

use kube::Api;
use kube::api::DeleteParams;
use pilothouse_crds::NodePool;

use crate::Failure;
use crate::hcp::client::{self, ClientArgs};
use crate::hcp::values;

/// Destroy a node pool. That there is none is fine.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The node pool
    #[arg(long, value_parser = values::label)]
    name: String,
    /// Its namespace
    #[arg(long, default_value = "clusters", value_parser = values::label)]
    namespace: String,
    #[command(flatten)]
    client: ClientArgs,
}

impl Args {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let Self { name, namespace, .. } = &self;
        let client = self.client.connect().await?;
        let pools: Api<NodePool> = Api::namespaced(client, namespace);
        match pools.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                client::tell(&format!("NodePool {namespace}/{name} is gone already"));
            }
            answer => {
                client::explain(answer, &format!("the deletion of NodePool {namespace}/{name}"))?;
                client::tell(&format!(
                    "NodePool {namespace}/{name} is being deleted; its nodes are drained first"
                ));
            }
        }
        Ok(())
    }
}
