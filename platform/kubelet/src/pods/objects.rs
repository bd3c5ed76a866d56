//! What pods refer to: fields of their own, ConfigMaps and Secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{Api, ResourceExt as _};

use super::referenced::{Content, Referenced, Seen};
use super::references::{Kind, Reference};
use super::resource_fields::Allocatable;

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
    #[error("{reference} could not be read: {cause}")]
    Unseen { reference: Reference, cause: String },
    #[error("{0}")]
    Other(String),
}

/// The entries of an object, or nothing if it is missing and may be.
type Entries = Option<BTreeMap<String, Vec<u8>>>;

/// Reads what a pod refers to in its own namespace.
pub(crate) struct Objects {
    source: Source,
    namespace: String,
}

/// Where objects are read from.
enum Source {
    /// The server, which is asked every time.
    Server(kube::Client),
    /// What is watched for the pod.
    Watched(Referenced),
}

impl Objects {
    /// As they are now.
    pub(crate) fn new(client: kube::Client, namespace: impl Into<String>) -> Self {
        Self { source: Source::Server(client), namespace: namespace.into() }
    }

    /// As they were last heard of. Whoever asks holds them.
    pub(crate) fn watched(referenced: Referenced, namespace: impl Into<String>) -> Self {
        Self { source: Source::Watched(referenced), namespace: namespace.into() }
    }

    /// The entries of a ConfigMap; nothing if it is missing and may be.
    pub(crate) async fn config_map(&self, name: &str, optional: bool) -> Result<Entries, Unresolved> {
        let content = match &self.source {
            Source::Server(client) => {
                let found = Api::<ConfigMap>::namespaced(client.clone(), &self.namespace).get_opt(name).await;
                found.map_err(unread(Kind::ConfigMap, name))?.map(Content::from).map(Arc::new)
            }
            Source::Watched(referenced) => self.seen(referenced, Kind::ConfigMap, name).await?,
        };
        self.entries(Kind::ConfigMap, name, optional, content)
    }

    /// The entries of a Secret; nothing if it is missing and may be.
    pub(crate) async fn secret(&self, name: &str, optional: bool) -> Result<Entries, Unresolved> {
        let content = match &self.source {
            Source::Server(client) => {
                let found = Api::<Secret>::namespaced(client.clone(), &self.namespace).get_opt(name).await;
                found.map_err(unread(Kind::Secret, name))?.map(Content::from).map(Arc::new)
            }
            Source::Watched(referenced) => self.seen(referenced, Kind::Secret, name).await?,
        };
        self.entries(Kind::Secret, name, optional, content)
    }

    async fn seen(
        &self,
        referenced: &Referenced,
        kind: Kind,
        name: &str,
    ) -> Result<Option<Arc<Content>>, Unresolved> {
        let reference = Reference { kind, namespace: self.namespace.clone(), name: name.to_owned() };
        match referenced.read(&reference).await {
            Seen::Present(content) => Ok(Some(content)),
            Seen::Absent => Ok(None),
            Seen::Nothing => Err(Unresolved::Unseen { reference, cause: "nobody has answered".to_owned() }),
            Seen::Failed(cause) => Err(Unresolved::Unseen { reference, cause }),
        }
    }

    fn entries(
        &self,
        kind: Kind,
        name: &str,
        optional: bool,
        content: Option<Arc<Content>>,
    ) -> Result<Entries, Unresolved> {
        match content {
            None if !optional => Err(Unresolved::Missing {
                kind: kind.name(),
                namespace: self.namespace.clone(),
                name: name.to_owned(),
            }),
            content => Ok(content.map(|content| content.entries.clone())),
        }
    }
}

impl Unresolved {
    /// The object whose change could make it good.
    pub(crate) fn waits_for(&self, namespace: &str) -> Option<Reference> {
        let (kind, name) = match self {
            Self::Missing { kind, name, .. } | Self::NoKey { kind, name, .. } => (*kind, name),
            _ => return None,
        };
        let kind = [Kind::ConfigMap, Kind::Secret].into_iter().find(|one| one.name() == kind)?;
        Some(Reference { kind, namespace: namespace.to_owned(), name: name.clone() })
    }
}

fn unread(kind: Kind, name: &str) -> impl FnOnce(kube::Error) -> Unresolved {
    let name = name.to_owned();
    move |error| Unresolved::Api { kind: kind.name(), name, source: Box::new(error) }
}

/// Where a pod is, as far as it may know.
pub(crate) struct Place<'a> {
    pub(crate) pod_address: &'a str,
    pub(crate) node_address: &'a str,
    pub(crate) allocatable: &'a Allocatable,
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
