//! `gateway`: the way to hosted API servers, alone.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use pilothouse_gateway::{
    Config, Deps, Dial, Direct, MANAGEMENT, Management as Followed, ManagementCluster, Reloader, Service,
};
use pilothouse_http::Verdict;
use pilothouse_kubelet_api::Dialer;
use pilothouse_region::Management;

use super::operator::{self, OperatorArgs, Site};
use crate::{Failure, Hint, Output};

/// Run the gateway alone, on any Kubernetes: hosted API servers behind one port, told apart by the name in the handshake.
///
/// A region runs one by itself. What has no flag is set in a file; `--dump-config` shows every key.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse gateway --kubeconfig management.kubeconfig
  pilothouse gateway --kubeconfig management.kubeconfig --node-socket node.sock")]
pub struct Args {
    #[command(flatten)]
    operator: OperatorArgs,
    /// Reach pods through this socket of a node of ours, whose network is its own
    #[arg(long, value_name = "FILE")]
    node_socket: Option<PathBuf>,
}

impl Args {
    /// Runs until it is stopped.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn run(&self, output: &mut Output) -> Result<ExitCode, Failure> {
        let dialer = dialer(self.node_socket.as_ref());
        let arguments = self.operator.config.clone();
        operator::run(
            "gateway",
            &self.operator,
            output,
            async |config: Config, site: Site<'_>| {
                let Site { management, clock, health, registry, tasks } = site;
                // Hosted clusters that it knows of are reached as before.
                operator::report(&health, &management, Verdict::warning);
                let mut followed =
                    vec![Followed { name: MANAGEMENT.to_owned(), client: management.client(), dialer }];
                for further in &config.management_clusters {
                    followed.push(follow(further).await?);
                }
                let deps = Deps { management: followed, clock, health: health.clone(), registry };
                let service = Service::build(config.clone(), deps)
                    .await
                    .hint("`service.listen` of the configuration is another; port 0 takes a free one")?;
                if let Some(file) = arguments.config.clone() {
                    let load = move || operator::again(&arguments);
                    Reloader::new(service.handle(), config, load).watch(file, &tasks, &health);
                }
                Ok(service)
            },
            |service: Service, shutdown| async move { Ok(service.run(shutdown).await?) },
        )
    }
}

/// The way to a further management cluster. It need not answer now: the others' clusters are served all the same.
async fn follow(cluster: &ManagementCluster) -> Result<Followed, Failure> {
    let management =
        Management::connect(Some(&cluster.kubeconfig)).await.map_err(|error| anyhow!(error)).hint(
            "`service.management_clusters` of the configuration names a kubeconfig; does `kubectl` work with that?",
        )?;
    let dialer = dialer(cluster.node_socket.as_ref());
    Ok(Followed { name: cluster.name.clone(), client: management.client(), dialer })
}

fn dialer(node_socket: Option<&PathBuf>) -> Arc<dyn Dial> {
    match node_socket {
        Some(socket) => Arc::new(Dialer::new(socket.clone())),
        None => Arc::new(Direct),
    }
}
