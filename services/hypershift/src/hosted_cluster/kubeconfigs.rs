//! The administrator's way in, from wherever they are.

use k8s_openapi::api::core::v1::Secret;
use pilothouse_informer::ObjectKey;
use pilothouse_pki::{Bundle, Credential, Identity, Kubeconfig};

use super::blueprint::Blueprint;
use super::manifests;
use super::publishing::Endpoint;
use crate::error::Error;
use crate::names::{self, API_PORT, API_SERVER};
use crate::secrets;

/// The key of a kubeconfig in its Secret, except where Cluster API says otherwise.
const KEY: &str = "kubeconfig";
/// The one for the name that the cluster's owner chose, in the namespace of the control plane.
pub(crate) const CUSTOM: &str = "custom-admin-kubeconfig";

/// Kubeconfigs of one administrator.
pub(crate) struct Kubeconfigs {
    /// From outside, as everybody is given it.
    pub(crate) published: String,
    /// The Secrets with them, beside the cluster and in its namespace.
    pub(crate) secrets: Vec<Secret>,
    /// Secrets that are not to be there any more, if they are.
    pub(crate) unwanted: Vec<ObjectKey>,
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
        let mut secrets = vec![
            beside(blueprint, &names::admin_kubeconfig(&blueprint.cluster.name), &published),
            secret("admin-kubeconfig", KEY, &published),
            secret("service-network-admin-kubeconfig", KEY, &in_service_network),
            secret("localhost-kubeconfig", KEY, &on_localhost),
            secret(&format!("{infra_id}-kubeconfig"), "value", &for_cluster_api),
        ];
        let custom = names::custom_admin_kubeconfig(&blueprint.cluster.name);
        let mut unwanted = Vec::new();
        if let Some(name) = &blueprint.custom_name {
            let by_name = write(&endpoint.by_name(name), None)?;
            secrets.push(beside(blueprint, &custom, &by_name));
            secrets.push(secret(CUSTOM, KEY, &by_name));
        } else {
            unwanted.push(ObjectKey::namespaced(blueprint.cluster.namespace_or_empty(), &custom));
            unwanted.push(ObjectKey::namespaced(&blueprint.namespace, CUSTOM));
        }
        Ok(Self { published, secrets, unwanted })
    }
}

/// Beside the cluster, and going with it.
fn beside(blueprint: &Blueprint, name: &str, kubeconfig: &str) -> Secret {
    let metadata = manifests::beside(blueprint, name);
    secrets::secret(metadata, "Opaque", [(KEY, kubeconfig.as_bytes().to_vec())])
}
