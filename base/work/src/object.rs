//! Which object.

use std::fmt;

use kube::api::ApiResource;
use kube::core::{DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use pilothouse_crds::{AppliedResource, ManifestResourceMeta};
use pilothouse_informer::ObjectKey;
use serde_json::Value;

/// A resource of the API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ResourceId {
    pub(crate) group: String,
    pub(crate) version: String,
    /// The plural.
    pub(crate) resource: String,
}

/// An object of the API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    pub(crate) resource: ResourceId,
    pub(crate) key: ObjectKey,
}

/// A resource as the API server serves it.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
}

/// A manifest that names what it is.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) kind: GroupVersionKind,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

// === impl ObjectId ===

impl ObjectId {
    pub(crate) fn applied(&self, uid: String) -> AppliedResource {
        AppliedResource {
            group: self.resource.group.clone(),
            version: self.resource.version.clone(),
            resource: self.resource.resource.clone(),
            namespace: self.key.namespace_or_empty().to_owned(),
            name: self.key.name.clone(),
            uid,
        }
    }

    pub(crate) fn of_applied(applied: &AppliedResource) -> Self {
        let namespace = Some(applied.namespace.clone()).filter(|namespace| !namespace.is_empty());
        Self {
            resource: ResourceId {
                group: applied.group.clone(),
                version: applied.version.clone(),
                resource: applied.resource.clone(),
            },
            key: ObjectKey { namespace, name: applied.name.clone() },
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} `{}`", self.resource, self.key)
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(formatter, ".{}", self.group)?;
        }
        Ok(())
    }
}

// === impl Served ===

impl Served {
    pub(crate) fn id(&self) -> ResourceId {
        ResourceId {
            group: self.resource.group.clone(),
            version: self.resource.version.clone(),
            resource: self.resource.plural.clone(),
        }
    }

    /// Which object a manifest is of this resource. An object of a namespace that names none goes to `default`.
    pub(crate) fn object(&self, named: &Named) -> ObjectId {
        let namespace =
            self.namespaced.then(|| named.namespace.clone().unwrap_or_else(|| "default".to_owned()));
        ObjectId { resource: self.id(), key: ObjectKey { namespace, name: named.name.clone() } }
    }

    pub(crate) fn api(&self, client: &Client, key: &ObjectKey) -> Api<DynamicObject> {
        match &key.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }
}

// === impl Named ===

impl Named {
    /// What a manifest says it is; otherwise what it lacks.
    pub(crate) fn of(manifest: &Value) -> Result<Self, &'static str> {
        let text =
            |pointer| manifest.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        let version = text("/apiVersion").ok_or("it has no apiVersion")?;
        let kind = text("/kind").ok_or("it has no kind")?;
        let name = text("/metadata/name").ok_or("it has no name")?;
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        Ok(Self {
            kind: GroupVersionKind::gvk(group, version, kind),
            namespace: text("/metadata/namespace").map(str::to_owned),
            name: name.to_owned(),
        })
    }

    /// What is known of it before the API server was asked.
    pub(crate) fn meta(&self, ordinal: usize) -> ManifestResourceMeta {
        ManifestResourceMeta {
            ordinal: i32::try_from(ordinal).unwrap_or(i32::MAX),
            group: self.kind.group.clone(),
            version: self.kind.version.clone(),
            kind: self.kind.kind.clone(),
            resource: String::new(),
            name: self.name.clone(),
            namespace: self.namespace.clone().unwrap_or_default(),
        }
    }
}
