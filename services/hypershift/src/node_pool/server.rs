//! Where workers find their API server.

use kube::config::Kubeconfig;
use pilothouse_crds::PlatformType;
use pilothouse_informer::ObjectKey;
use pilothouse_pki::Bundle;

use super::{NodePools, Scene};
use crate::error::Error;
use crate::hosted_cluster::{cluster_address, pki};
use crate::names::{self, API_PORT, API_SERVER};
use crate::secrets::Keyring;

/// Where workers find their API server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) url: String,
    pub(super) tls_name: Option<String>,
    pub(super) authorities: Bundle,
}

// === impl NodePools ===

impl NodePools {
    /// Where the workers of a pool find their API server: pods beside it, others where everybody does.
    pub(super) fn server(&self, scene: &Scene<'_>, keyring: &Keyring<'_>) -> Result<Option<Server>, Error> {
        if scene.pool.spec.platform.type_ == PlatformType::None {
            return Ok(self.published_server(scene));
        }
        let service = self.caches.services.get(&ObjectKey::namespaced(&scene.namespace, API_SERVER));
        let address = service.and_then(|service| cluster_address(&service));
        let (Some(root), Some(address)) = (keyring.authority_if_made(pki::ROOT_AUTHORITY)?, address) else {
            return Ok(None);
        };
        Ok(Some(Server {
            url: format!("https://{address}:{API_PORT}"),
            tls_name: Some(API_SERVER.to_owned()),
            authorities: pki::trust(&root)?,
        }))
    }

    /// What the administrator's kubeconfig says.
    fn published_server(&self, scene: &Scene<'_>) -> Option<Server> {
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
        })
    }
}

/// What base64 stands for.
fn decoded(text: &str) -> Option<Vec<u8>> {
    // The one kind that a Secret's values are in, too.
    let value = serde_json::Value::String(text.to_owned());
    serde_json::from_value::<k8s_openapi::ByteString>(value).ok().map(|bytes| bytes.0)
}
