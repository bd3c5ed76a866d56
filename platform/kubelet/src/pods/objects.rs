//! What pods refer to: fields of their own, ConfigMaps and Secrets.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{Api, ResourceExt as _};

/// A reference that leads nowhere, for now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unresolved {
    #[error("{kind} `{name}` does not exist in namespace `{namespace}`")]
    Missing { kind: &'static str, namespace: String, name: String },
    #[error("{kind} `{name}` has no key `{key}`")]
    NoKey { kind: &'static str, name: String, key: String },
    #[error("field `{0}` is not available to pods on this node")]
    Field(String),
    #[error("{kind} `{name}` could not be read")]
    Api {
        kind: &'static str,
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("{0}")]
    Other(String),
}

/// Reads what a pod refers to in its own namespace.
pub(crate) struct Objects {
    client: kube::Client,
    namespace: String,
}

impl Objects {
    pub(crate) fn new(client: kube::Client, namespace: impl Into<String>) -> Self {
        Self { client, namespace: namespace.into() }
    }

    /// The entries of a ConfigMap; nothing if it is missing and may be.
    pub(crate) async fn config_map(
        &self,
        name: &str,
        optional: bool,
    ) -> Result<Option<BTreeMap<String, Vec<u8>>>, Unresolved> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = api.get_opt(name).await;
        let Some(found) = self.present("ConfigMap", name, optional, found)? else { return Ok(None) };
        let mut entries: BTreeMap<String, Vec<u8>> =
            found.data.unwrap_or_default().into_iter().map(|(key, text)| (key, text.into_bytes())).collect();
        entries.extend(found.binary_data.unwrap_or_default().into_iter().map(|(key, bytes)| (key, bytes.0)));
        Ok(Some(entries))
    }

    /// The entries of a Secret; nothing if it is missing and may be.
    pub(crate) async fn secret(
        &self,
        name: &str,
        optional: bool,
    ) -> Result<Option<BTreeMap<String, Vec<u8>>>, Unresolved> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = api.get_opt(name).await;
        let Some(found) = self.present("Secret", name, optional, found)? else { return Ok(None) };
        Ok(Some(found.data.unwrap_or_default().into_iter().map(|(key, bytes)| (key, bytes.0)).collect()))
    }

    fn present<T>(
        &self,
        kind: &'static str,
        name: &str,
        optional: bool,
        found: Result<Option<T>, kube::Error>,
    ) -> Result<Option<T>, Unresolved> {
        match found {
            Ok(None) if !optional => {
                Err(Unresolved::Missing { kind, namespace: self.namespace.clone(), name: name.to_owned() })
            }
            Ok(found) => Ok(found),
            Err(error) => Err(Unresolved::Api { kind, name: name.to_owned(), source: Box::new(error) }),
        }
    }
}

/// Where a pod is, as far as it may know.
pub(crate) struct Place<'a> {
    pub(crate) pod_address: &'a str,
    pub(crate) node_address: &'a str,
}

/// A field of the downward API.
pub(crate) fn field(pod: &Pod, place: &Place<'_>, path: &str) -> Result<String, Unresolved> {
    let spec = pod.spec.as_ref();
    let entry = |entries: &BTreeMap<String, String>, key: &str| entries.get(key).cloned().unwrap_or_default();
    let listed = |entries: &BTreeMap<String, String>| {
        entries.iter().map(|(key, value)| format!("{key}={value:?}")).collect::<Vec<_>>().join("\n")
    };
    if let Some((field, rest)) = path.split_once("['") {
        let key = rest.trim_end_matches("']");
        return match field {
            "metadata.labels" => Ok(entry(pod.labels(), key)),
            "metadata.annotations" => Ok(entry(pod.annotations(), key)),
            _ => Err(Unresolved::Field(path.to_owned())),
        };
    }
    Ok(match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => pod.namespace().unwrap_or_default(),
        "metadata.uid" => pod.uid().unwrap_or_default(),
        "metadata.labels" => listed(pod.labels()),
        "metadata.annotations" => listed(pod.annotations()),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => {
            spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_else(|| "default".to_owned())
        }
        "status.podIP" | "status.podIPs" => place.pod_address.to_owned(),
        "status.hostIP" | "status.hostIPs" => place.node_address.to_owned(),
        _ => return Err(Unresolved::Field(path.to_owned())),
    })
}
