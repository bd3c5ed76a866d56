//! What a region is told about itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pilothouse_hypershift::Payload;
use pilothouse_runtime::telemetry::Journal;

use crate::data_dir::DataDir;
use crate::gateway::GatewayFile;
use crate::ports::Ports;

/// What a region is told about itself.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folder it lives in.
    pub data_dir: DataDir,
    /// The `pilothouse` binary, which pods are started from.
    pub program: PathBuf,
    /// Which ports it listens on.
    pub ports: PortChoice,
    /// Part of the namespaces of hosted clusters, at most nine characters.
    pub environment: String,
    /// The location of its resources, as ARM names it.
    pub location: String,
    /// The domain that hosted clusters' names are in.
    pub base_domain: String,
    /// Whether callers of the resource provider are asked who they are.
    pub authentication: Authentication,
    /// Programs of this machine that pods of the management cluster may name as their image.
    pub images: BTreeMap<String, PathBuf>,
    /// Where programs of upstream Kubernetes are, which are images, too.
    pub upstream: Option<PathBuf>,
    /// Which programs control planes of hosted clusters consist of that choose none.
    pub payload: Payload,
    /// Whether virtual machines run here as processes. Not where KubeVirt runs them.
    pub virtual_machines: bool,
    /// How its gateway behaves; without it, as by default.
    pub gateway: Option<GatewayFile>,
    /// Where the endpoints are written as well, once all of them accept. What is there before is removed.
    pub endpoints_file: Option<PathBuf>,
    /// Where its services' logs come from. Without telemetry that tells it, they stay empty.
    pub journal: Journal,
}

/// Whether callers of the resource provider are asked who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// Whoever is on this machine is let in.
    #[default]
    None,
    /// They show a token of the region's own issuer, see [`DataDir::issuer`].
    LocalTokens,
}

/// How ports are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortChoice {
    /// These, and no others.
    Fixed(Ports),
    /// By the system, once; a resumed region has the same ones.
    Ephemeral,
}

// === impl Config ===

impl Config {
    /// A region in this folder, on the default ports, that runs pods from the current program.
    pub fn new(data_dir: DataDir) -> Self {
        Self {
            data_dir,
            program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("pilothouse")),
            ports: PortChoice::Fixed(Ports::default()),
            environment: "local".to_owned(),
            location: "local".to_owned(),
            base_domain: "pilothouse.test".to_owned(),
            authentication: Authentication::None,
            images: BTreeMap::new(),
            upstream: None,
            payload: Payload::default(),
            virtual_machines: true,
            gateway: None,
            endpoints_file: None,
            journal: Journal::default(),
        }
    }
}
