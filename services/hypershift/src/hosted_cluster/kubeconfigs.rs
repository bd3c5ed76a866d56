//! The administrator's way in, from wherever they are.

use k8s_openapi::api::core::v1::Secret;
use pilothouse_pki::{Bundle, Credential, Identity, Kubeconfig};

use super::blueprint::Blueprint;
use super::manifests;
use super::publishing::Endpoint;
use crate::error::Error;
use crate::names::{self, API_PORT, API_SERVER};
use crate::secrets;

/// The key of a kubeconfig in its Secret, except where Cluster API says otherwise.
const KEY: &str = "kubeconfig";

/// Kubeconfigs of one administrator.
pub(crate) struct Kubeconfigs {
    /// From outside, as everybody is given it.
    pub(crate) published: String,
    pub(crate) beside: Secret,
    pub(crate) in_namespace: Vec<Secret>,
}

impl Kubeconfigs {
    pub(crate) fn write(
        blueprint: &Blueprint,
        endpoint: &Endpoint,
        administrator: &Identity,
        authorities: &Bundle,
        infra_id: &str,
    ) -> Result<Self, Error> {
        let write = |server: &str, server_name: Option<&str>| {
            let kubeconfig = Kubeconfig {
                cluster: blueprint.cluster.name.as_str(),
                user: "admin",
                context: "admin",
                server,
                tls_server_name: server_name,
                authorities,
                namespace: None,
                credential: Credential::Certificate(administrator),
            };
            kubeconfig.to_yaml().map(|text| text.to_string()).map_err(Error::Kubeconfig)
        };
        let published = write(&endpoint.server, endpoint.server_name.as_deref())?;
        let in_service_network = write(&format!("https://{API_SERVER}:{API_PORT}"), None)?;
        let on_localhost = write(&format!("https://localhost:{API_PORT}"), None)?;
        let for_cluster_api =
            write(&format!("https://{API_SERVER}.{}.svc:{API_PORT}", blueprint.namespace), None)?;
        let secret = |name: &str, key: &str, text: &str| {
            let metadata = manifests::in_namespace(blueprint, name);
            secrets::secret(metadata, "Opaque", [(key, text.as_bytes().to_vec())])
        };
        let in_namespace = vec![
            secret("admin-kubeconfig", KEY, &published),
            secret("service-network-admin-kubeconfig", KEY, &in_service_network),
            secret("localhost-kubeconfig", KEY, &on_localhost),
            secret(&format!("{infra_id}-kubeconfig"), "value", &for_cluster_api),
        ];
        Ok(Self { beside: beside(blueprint, &published), published, in_namespace })
    }
}

/// Beside the cluster, and going with it.
fn beside(blueprint: &Blueprint, kubeconfig: &str) -> Secret {
    let name = names::admin_kubeconfig(&blueprint.cluster.name);
    let metadata = manifests::beside(blueprint, &name);
    secrets::secret(metadata, "Opaque", [(KEY, kubeconfig.as_bytes().to_vec())])
}
