//! What this process wrote last.
//!
//! Of every object there are two things to know: what was wanted of it, to tell what is no longer wanted, and what it
//! became, for as long as the watch has not heard of that. The first is kept as text, which takes a tenth of what it is
//! read into, and the second goes as soon as the watch has it: a cluster of many works would otherwise have each object three times.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::core::DynamicObject;
use serde_json::Value;

use crate::object::ObjectId;

/// By object. Shared by all passes.
#[derive(Default)]
pub(crate) struct Written {
    entries: Mutex<HashMap<ObjectId, Entry>>,
}

struct Entry {
    manifest: Manifest,
    version: Option<u64>,
    object: Option<Arc<DynamicObject>>,
}

/// What was wanted of an object, which may be secret. A cheap handle.
#[derive(Clone)]
pub(crate) struct Manifest(Arc<str>);

/// Where the newest state of an object is.
pub(crate) enum Newest {
    /// Here it is.
    Known(Arc<DynamicObject>),
    /// Only the server can tell.
    Unknown,
}

// === impl Written ===

impl Written {
    /// An object was written, because this was wanted of it.
    pub(crate) fn put(&self, id: &ObjectId, manifest: &Value, object: &Arc<DynamicObject>) {
        let entry = Entry {
            manifest: Manifest(manifest.to_string().into()),
            version: version(object),
            object: Some(object.clone()),
        };
        self.lock().insert(id.clone(), entry);
    }

    pub(crate) fn forget(&self, id: &ObjectId) {
        self.lock().remove(id);
    }

    /// What was wanted of an object when it was written.
    pub(crate) fn manifest(&self, id: &ObjectId) -> Option<Manifest> {
        self.lock().get(id).map(|entry| entry.manifest.clone())
    }

    /// The newest there is of an object, given what the watch has heard of it. What the watch has is not kept here any longer.
    pub(crate) fn newest(&self, id: &ObjectId, heard: Option<Arc<DynamicObject>>) -> Newest {
        let Some(heard) = heard else { return Newest::Unknown };
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(id) else { return Newest::Known(heard) };
        match (version(&heard), entry.version) {
            (Some(of_heard), Some(of_written)) if of_heard >= of_written => {
                entry.object = None;
                Newest::Known(heard)
            }
            // A watch that goes back behind what it has told before had to begin anew elsewhere.
            (Some(_), Some(_)) => entry.object.clone().map_or(Newest::Unknown, Newest::Known),
            _ => Newest::Unknown,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Versions are numbers that grow in every server there is; where one is not, the server is asked.
fn version(object: &DynamicObject) -> Option<u64> {
    object.metadata.resource_version.as_deref()?.parse().ok()
}

// === impl Manifest ===

impl Manifest {
    /// Whether it says the same.
    pub(crate) fn is(&self, manifest: &Value) -> bool {
        *self.0 == *manifest.to_string()
    }

    pub(crate) fn read(&self) -> Option<Value> {
        // It was written from a value.
        serde_json::from_str(&self.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_informer::ObjectKey;
    use serde_json::json;

    use super::*;
    use crate::object::ResourceId;

    fn object(version: &str) -> Arc<DynamicObject> {
        let object = json!({"metadata": {"name": "a", "resourceVersion": version}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn found(newest: Newest) -> Option<String> {
        match newest {
            Newest::Known(object) => object.metadata.resource_version.clone(),
            Newest::Unknown => None,
        }
    }

    #[test]
    fn what_was_written_is_kept_until_the_watch_has_it() {
        let written = Written::default();
        let resource = ResourceId { group: String::new(), version: "v1".into(), resource: "secrets".into() };
        let id = ObjectId { resource, key: ObjectKey::namespaced("shop", "a") };
        assert_eq!(
            found(written.newest(&id, Some(object("3")))).as_deref(),
            Some("3"),
            "nothing was written"
        );
        let ours = object("7");
        written.put(&id, &json!({"kind": "Secret"}), &ours);
        assert_eq!(found(written.newest(&id, None)), None, "somebody may have deleted it");
        assert_eq!(found(written.newest(&id, Some(object("6")))).as_deref(), Some("7"));
        assert_eq!(Arc::strong_count(&ours), 2);
        assert_eq!(found(written.newest(&id, Some(object("8")))).as_deref(), Some("8"));
        assert_eq!(Arc::strong_count(&ours), 1, "the watch has it, and nobody else needs to");
        assert_eq!(found(written.newest(&id, Some(object("6")))), None);
        let manifest = written.manifest(&id).unwrap();
        assert!(manifest.is(&json!({"kind": "Secret"})) && !manifest.is(&json!({"kind": "ConfigMap"})));
        assert_eq!(manifest.read(), Some(json!({"kind": "Secret"})));
        written.forget(&id);
        assert!(written.manifest(&id).is_none());
    }
}
