//! `gateway`: the way to hosted API servers, alone.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use pilothouse_gateway::{Config, Deps, MANAGEMENT, Management as Followed, Reloader, Service};
use pilothouse_http::Verdict;

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
        let dialer = pilothouse_region::dialer(self.node_socket.as_ref());
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
                let further = pilothouse_region::follow(&config.management_clusters, &health).await;
                followed.extend(further.map_err(|error| anyhow!(error)).hint(
                    "`service.management_clusters` of the configuration names a kubeconfig; does `kubectl` work with that?",
                )?);
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
