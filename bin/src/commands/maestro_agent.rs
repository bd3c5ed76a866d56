//! `maestro-agent`: applies bundles of manifests to a management cluster, alone.

use std::process::ExitCode;

use pilothouse_maestro::agent::{Config, Deps, Service, catalog};

use super::location;
use super::maestro_server::BrokerType;
use super::operator::{self, OperatorArgs, Site};
use crate::{Failure, Hint, Output};

/// Run the Maestro agent alone, on any Kubernetes: applies the bundles that a server sends, and reports on them.
///
/// A region runs one by itself. What has no flag is set in a file; `--dump-config` shows every key. Custom resources that
/// the cluster does not have are made.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse maestro-agent --kubeconfig management.kubeconfig --consumer-name mgmt-1
  pilothouse maestro-agent --config agent.toml --workload-source-driver grpc")]
pub struct Args {
    /// The name of this cluster at the server [default: as configured]
    #[arg(long, value_name = "NAME")]
    consumer_name: Option<String>,
    /// How the server is reached: through an MQTT broker, or by gRPC, dialling it [default: as configured]
    #[arg(long, value_name = "TYPE")]
    workload_source_driver: Option<BrokerType>,
    #[command(flatten)]
    operator: OperatorArgs,
}

impl Args {
    /// Runs until it is stopped.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn run(&self, output: &mut Output) -> Result<ExitCode, Failure> {
        let build = async |mut config: Config, site: Site<'_>| {
            if let Some(name) = &self.consumer_name {
                config.consumer.clone_from(name);
            }
            if let Some(kind) = self.workload_source_driver {
                config.broker.kind = kind.into();
            }
            let Site { management, clock, health, registry, tasks } = site;
            let place = location::Place { location: &config.store, password_file: None, key_file: None };
            let store = place.open(catalog(), tasks.shutdown().clone()).await?;
            let deps = Deps { client: management.client(), store, clock, health, registry };
            Service::build(config, deps)
                .await
                .hint("docs/how-to/run-maestro.md tells how server and agent find each other")
        };
        operator::run(
            "maestro-agent",
            &self.operator,
            output,
            build,
            |service: Service, shutdown| async move { Ok(service.run(shutdown).await?) },
        )
    }
}
