//! Where everything is.

use std::path::{Path, PathBuf};

use pilothouse_pki::{FileError, Visibility, write_atomically};
use serde::{Deserialize, Serialize};

use crate::ports::{Ports, loopback};

/// Where the parts of a running region are: URLs, or paths where the value is a file. Fields are only ever added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoints {
    /// The resource provider's API.
    pub frontend: String,
    /// The administrators' surface of the resource provider.
    #[serde(default)]
    pub admin: String,
    /// Clusters Service.
    pub clusters_service: String,
    /// Maestro's REST API.
    pub maestro: String,
    /// Maestro's gRPC API.
    pub maestro_grpc: String,
    /// The MQTT broker.
    pub mqtt: String,
    /// A kubeconfig of the management cluster.
    pub management_kubeconfig: PathBuf,
    /// Hosted API servers, told apart by the name in the TLS handshake.
    pub gateway: String,
    /// `hcp` to download.
    #[serde(default)]
    pub downloads: String,
    /// The local cloud.
    pub cloud: String,
    /// Names of clusters, over UDP and TCP.
    #[serde(default)]
    pub dns: String,
    /// Health, metrics and debug pages.
    pub metrics: String,
}

// === impl Endpoints ===

impl Endpoints {
    pub(crate) fn new(ports: &Ports, management_kubeconfig: PathBuf) -> Self {
        let url = |scheme: &str, port| format!("{scheme}://{}", loopback(port));
        Self {
            frontend: url("http", ports.frontend),
            admin: url("http", ports.admin),
            clusters_service: url("http", ports.clusters_service),
            maestro: url("http", ports.maestro),
            maestro_grpc: url("http", ports.maestro_grpc),
            mqtt: url("mqtt", ports.mqtt),
            management_kubeconfig,
            gateway: url("https", ports.gateway),
            downloads: url("http", ports.downloads),
            cloud: url("http", ports.cloud),
            dns: url("dns", ports.dns),
            metrics: url("http", ports.metrics),
        }
    }

    /// Names and values, in the order in which a request meets them.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let Self {
            frontend,
            admin,
            clusters_service,
            maestro,
            maestro_grpc,
            mqtt,
            management_kubeconfig,
            gateway,
            downloads,
            cloud,
            dns,
            metrics,
        } = self;
        vec![
            ("frontend", frontend.clone()),
            ("admin", admin.clone()),
            ("clusters service", clusters_service.clone()),
            ("maestro", maestro.clone()),
            ("maestro gRPC", maestro_grpc.clone()),
            ("mqtt", mqtt.clone()),
            ("management kubeconfig", management_kubeconfig.display().to_string()),
            ("gateway", gateway.clone()),
            ("downloads", downloads.clone()),
            ("cloud", cloud.clone()),
            ("dns", dns.clone()),
            ("metrics", metrics.clone()),
        ]
    }

    /// Writes them to a file that is either complete or not there.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), FileError> {
        // Strings and paths that came from strings: there is nothing that JSON could refuse.
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        write_atomically(file, &text, Visibility::Everyone)
    }
}
