//! `gateway`: the way to hosted API servers, alone.

use std::path::PathBuf;
use std::process::ExitCode;

use pilothouse_gateway::{
    Config, Deps, Error, MANAGEMENT, Management as Followed, Reloader, Service, dialer,
};
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
        let dialer = dialer(self.node_socket.as_deref());
        let arguments = self.operator.config.clone();
        operator::run(
            "gateway",
            &self.operator,
            output,
            async |config: Config, site: Site<'_>| {
                let Site { management, clock, health, registry, tasks } = site;
                // Hosted clusters that it knows of are reached as before.
                operator::report(&health, &management, Verdict::warning);
                let followed = Followed { name: MANAGEMENT.to_owned(), client: management.client(), dialer };
                let deps = Deps { management: vec![followed], clock, health: health.clone(), registry };
                let built = Service::build(config.clone(), deps).await;
                let hint = match &built {
                    Err(Error::Management { .. }) => {
                        "`service.management_clusters` of the configuration names that kubeconfig"
                    }
                    _ => "`service.listen` of the configuration is another; port 0 takes a free one",
                };
                let service = built.hint(hint)?;
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
