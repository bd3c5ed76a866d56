use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// What a server is told about itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where it listens. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The Kubernetes version it speaks, such as `1.33.4`. Clients decide by it what they may use.
    pub version: String,
    /// The range Services get their addresses from; the first belongs to the Service `kubernetes`.
    pub service_cidr: String,
    /// What the Endpoints of the Service `kubernetes` name; where it listens, if nothing is said.
    pub advertise: Option<SocketAddr>,
    /// The URL clients outside reach it under, if it is not where it listens.
    pub external_url: Option<String>,
    /// Who may come without showing anything.
    pub anonymous: Anonymous,
    /// Domains of labels, such as `node-role.kubernetes.io`, that a node may give itself when it registers although they are
    /// Kubernetes' own.
    pub node_label_domains: Vec<String>,
    /// Whether nodes may see each other, as those must that lead to each other's pods by themselves.
    pub nodes_are_neighbours: bool,
}

/// Who may come without a certificate and without a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Anonymous {
    /// Nobody.
    Off,
    /// Whoever asks how the server is, or which version it has: `/livez`, `/readyz`, `/healthz` and `/version`.
    #[default]
    PublicPages,
    /// Everybody, as `system:anonymous`; rules say what they may do.
    On,
}

impl Anonymous {
    /// Whether nobody in particular may ask for this path.
    pub(crate) fn admits(self, path: &str) -> bool {
        match self {
            Self::Off => false,
            Self::PublicPages => matches!(path, "/livez" | "/readyz" | "/healthz" | "/version"),
            Self::On => true,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            version: "1.33.4".to_owned(),
            service_cidr: "10.96.0.0/16".to_owned(),
            advertise: None,
            external_url: None,
            anonymous: Anonymous::default(),
            node_label_domains: Vec::new(),
            nodes_are_neighbours: false,
        }
    }
}
