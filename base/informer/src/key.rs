//! What tells one object of a resource from another.

use std::fmt;

use kube::ResourceExt;

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Absent for resources of the whole cluster.
    pub namespace: Option<String>,
    /// The name within it.
    pub name: String,
}

// === impl ObjectKey ===

impl ObjectKey {
    /// The key of an object in a namespace.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// The key of an object of the whole cluster.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self { namespace: None, name: name.into() }
    }

    /// The key of this object.
    pub fn of(object: &impl ResourceExt) -> Self {
        Self { namespace: object.namespace(), name: object.name_any() }
    }

    /// The namespace, or nothing for a resource of the whole cluster.
    pub fn namespace_or_empty(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{namespace}/{}", self.name),
            None => formatter.write_str(&self.name),
        }
    }
}
