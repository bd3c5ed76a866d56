//! The command line of `pilothouse`.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{
    backend, broker, cloud, clusters_service, completions, control_plane, dns, down, frontend, gateway, hold,
    hypershift_operator, kube_apiserver, kubeconfig, kubelet, maestro_agent, maestro_server,
    multicluster_engine, nodes, operations, status, store, token, up, upstream, version, virt_controller,
};
use crate::{Failure, Output, OutputArgs, exit_code, hcp};

/// Hosted control planes: ask an API for a cluster, get one.
///
/// Pilothouse is a managed-cluster service. Whoever asks its API for a cluster gets a Kubernetes-style cluster
/// whose control plane is hosted for them; this one binary is the whole chain behind that request.
#[derive(Debug, Parser)]
#[command(
    name = "pilothouse",
    version,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = "\
Examples:
  pilothouse up                                         A whole region on this machine
  pilothouse kubeconfig first > first.kubeconfig        The way into the cluster `first`
  pilothouse nodes first                                Its nodes
  pilothouse operations list --active                   What is under way
  pilothouse down                                       Stop the region; what is stored stays
  pilothouse store check --store region.db              Is everything in a store as it should be?

Data goes to standard output, everything else to standard error.
Exit codes: 0 done, 1 failed, 2 the command line was not understood."
)]
pub struct Args {
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: Verb,
}

/// One file of `commands/` each.
#[derive(Debug, Subcommand)]
enum Verb {
    Up(up::Args),
    Down(down::Args),
    Status(status::Args),
    Kubeconfig(kubeconfig::Args),
    Nodes(nodes::Args),
    Token(token::Args),
    Operations(operations::Args),
    Hold(hold::Args),
    Frontend(pilothouse_frontend::Args),
    Backend(pilothouse_backend::Args),
    ClustersService(clusters_service::Args),
    Cloud(cloud::Args),
    Dns(dns::Args),
    ControlPlane(control_plane::Args),
    KubeApiserver(Box<kube_apiserver::Args>),
    Kubelet(Box<kubelet::Args>),
    HypershiftOperator(hypershift_operator::Args),
    MulticlusterEngine(multicluster_engine::Args),
    Broker(broker::Args),
    MaestroServer(maestro_server::Args),
    MaestroAgent(maestro_agent::Args),
    VirtController(virt_controller::Args),
    Gateway(gateway::Args),
    Store(store::Args),
    Upstream(upstream::Args),
    Version(version::Args),
    Completions(completions::Args),
}

/// The whole of `main`.
///
/// The node starts this program again in three small roles that must be alone in their process, without memory spent on a
/// command line; two of them without threads as well. They are told apart before anything else happens.
///
/// Under the name of `hcp` it is that: a region offers itself for download as what users have, where it was installed alone.
pub fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let called = arguments.next().unwrap_or_default();
    if Path::new(&called).file_name() == Some(OsStr::new(hcp::NAME)) {
        return hcp::main();
    }
    // What the node passes is its own, and text.
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    match arguments.next().as_deref() {
        Some(pilothouse_kubelet::shim::VERB) => pilothouse_kubelet::shim::main(arguments),
        Some(pilothouse_kubelet::anchor::VERB) => pilothouse_kubelet::anchor::main(arguments),
        Some(pilothouse_kubelet::relay::VERB) => pilothouse_kubelet::relay::main(arguments),
        _ => exit_code(Args::parse().run()),
    }
}

impl Args {
    /// Carries out what the command line asks for.
    ///
    /// # Errors
    ///
    /// If the verb fails.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let mut output = Output::stdout(self.output);
        match self.verb {
            // These run until they are stopped, and their exit code says how that went.
            Verb::Up(args) => return args.run(&mut output),
            Verb::Status(args) => return args.run(&mut output),
            Verb::ControlPlane(args) => return args.run(&mut output),
            Verb::KubeApiserver(args) => return args.run(&mut output),
            Verb::Kubelet(args) => return args.run(&mut output),
            Verb::HypershiftOperator(args) => return args.run(&mut output),
            Verb::MulticlusterEngine(args) => return args.run(&mut output),
            Verb::ClustersService(args) => return args.run(&mut output),
            Verb::Cloud(args) => return args.run(&mut output),
            Verb::Dns(args) => return args.run(&mut output),
            Verb::Broker(args) => return args.run(&mut output),
            Verb::MaestroServer(args) => return args.run(&mut output),
            Verb::MaestroAgent(args) => return args.run(&mut output),
            Verb::VirtController(args) => return args.run(&mut output),
            Verb::Gateway(args) => return args.run(&mut output),
            Verb::Frontend(args) => return frontend::run(&args, &mut output),
            Verb::Backend(args) => return backend::run(&args, &mut output),
            Verb::Down(args) => args.run(&mut output)?,
            Verb::Kubeconfig(args) => args.run(&mut output)?,
            Verb::Nodes(args) => args.run(&mut output)?,
            Verb::Token(args) => args.run(&mut output)?,
            Verb::Operations(args) => args.run(&mut output)?,
            Verb::Hold(args) => args.run(&mut output)?,
            Verb::Store(args) => args.run(&mut output)?,
            Verb::Upstream(args) => args.run(&mut output)?,
            Verb::Version(args) => args.run("pilothouse", &mut output)?,
            Verb::Completions(args) => args.run::<Self>(&mut output)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
