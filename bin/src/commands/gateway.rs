//! `gateway`: the way to hosted API servers, alone.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use pilothouse_gateway::{Config, Deps, Dial, Direct, Service};
use pilothouse_http::Verdict;
use pilothouse_kubelet_api::Dialer;

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
        let dialer: Arc<dyn Dial> = match &self.node_socket {
            Some(socket) => Arc::new(Dialer::new(socket.clone())),
            None => Arc::new(Direct),
        };
        operator::run(
            "gateway",
            &self.operator,
            output,
            async |config: Config, site: Site<'_>| {
                let Site { management, clock, health, registry, .. } = site;
                // Hosted clusters that it knows of are reached as before.
                operator::report(&health, &management, Verdict::warning);
                let deps = Deps { client: management.client(), dialer, clock, health, registry };
                Service::build(config, deps)
                    .await
                    .hint("`service.listen` of the configuration is another; port 0 takes a free one")
            },
            |service: Service, shutdown| async move { Ok(service.run(shutdown).await?) },
        )
    }
}
