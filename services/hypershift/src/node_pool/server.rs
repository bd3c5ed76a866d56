//! Where workers find their API server.

use kube::config::Kubeconfig;
use pilothouse_crds::PlatformType;
use pilothouse_informer::ObjectKey;
use pilothouse_pki::Bundle;

use super::{NodePools, Scene};
use crate::hosted_cluster::cluster_address;
use crate::names::{self, API_PORT, API_SERVER};

/// Where workers find their API server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) url: String,
    pub(super) tls_name: Option<String>,
    /// Whom to believe that it is the server.
    pub(super) authorities: Bundle,
    /// Whose clients a worker lets in, PEM.
    pub(super) clients: String,
}

// === impl NodePools ===

impl NodePools {
    /// Where the workers of a pool find their API server: pods beside it, others where everybody does. Nothing while it is not known.
    pub(super) fn server(&self, scene: &Scene<'_>) -> Option<Server> {
        let key = ObjectKey::namespaced(&scene.namespace, API_SERVER);
        // What the server itself reads.
        let settings = self.caches.config_maps.get(&key)?;
        let authority = |name: &str| settings.data.as_ref()?.get(name).cloned();
        let clients = authority("client-ca.crt")?;
        if scene.pool.spec.platform.type_ == PlatformType::None {
            return self.published_server(scene, clients);
        }
        let address = cluster_address(self.caches.services.get(&key)?.as_ref())?;
        Some(Server {
            url: format!("https://{address}:{API_PORT}"),
            tls_name: Some(API_SERVER.to_owned()),
            authorities: Bundle::from_pem(authority("root-ca.crt")?.as_bytes()).ok()?,
            clients,
        })
    }

    /// What the administrator's kubeconfig says.
    fn published_server(&self, scene: &Scene<'_>, clients: String) -> Option<Server> {
        let name = names::admin_kubeconfig(&scene.cluster_key.name);
        let secret =
            self.caches.secrets.get(&ObjectKey::namespaced(scene.cluster_key.namespace_or_empty(), name))?;
        let text = secret.data.as_ref()?.get("kubeconfig")?;
        let kubeconfig = Kubeconfig::from_yaml(std::str::from_utf8(&text.0).ok()?).ok()?;
        let cluster = kubeconfig.clusters.into_iter().next()?.cluster?;
        let authorities = cluster.certificate_authority_data.as_deref()?;
        Some(Server {
            url: cluster.server?,
            tls_name: cluster.tls_server_name,
            authorities: Bundle::from_pem(&decoded(authorities)?).ok()?,
            clients,
        })
    }
}

/// What base64 stands for.
fn decoded(text: &str) -> Option<Vec<u8>> {
    // The one kind that a Secret's values are in, too.
    let value = serde_json::Value::String(text.to_owned());
    serde_json::from_value::<k8s_openapi::ByteString>(value).ok().map(|bytes| bytes.0)
}
