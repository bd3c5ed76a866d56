//! Watches of everything that was applied.
//!
//! There is one watch per resource, over all namespaces, begun when the first object of it is applied. It keeps whole only
//! what some work owns; of everything else it keeps the names, since a management cluster has many secrets that are
//! none of ours. What it keeps is text, which is read when a work looks at it: read, it would take eight times as much memory, for
//! objects that are looked at when they change and then not for days.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use kube::core::DynamicObject;
use pilothouse_informer::{Informer, ObjectKey, watcher};
use pilothouse_runtime::Tasks;
use serde_json::Value;

use crate::object::{ObjectId, ResourceId, Served};
use crate::owner;

/// What to call with the name of a work whose objects changed.
pub(crate) type Wake = Arc<dyn Fn(&str) + Send + Sync>;

pub(crate) struct Watches {
    client: Client,
    tasks: Tasks,
    wake: Wake,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    informers: HashMap<ResourceId, Informer<DynamicObject>>,
    /// Which works care for which object. There are thousands of both, and hardly ever more than one of a kind: a set would
    /// take a kilobyte for it.
    interested: HashMap<ObjectId, Vec<String>>,
    /// The same, the other way round.
    objects: HashMap<String, Box<[ObjectId]>>,
}

// === impl Watches ===

impl Watches {
    pub(crate) fn new(client: Client, tasks: Tasks, wake: Wake) -> Self {
        Self { client, tasks, wake, shared: Arc::default() }
    }

    /// From now on `work` is woken by exactly these objects.
    pub(crate) fn register(&self, work: &str, objects: BTreeSet<ObjectId>) {
        let mut shared = self.lock();
        let before: BTreeSet<_> = shared.objects.remove(work).into_iter().flatten().collect();
        for object in before.difference(&objects) {
            if let Some(works) = shared.interested.get_mut(object) {
                works.retain(|known| known != work);
                if works.is_empty() {
                    shared.interested.remove(object);
                }
            }
        }
        for object in objects.difference(&before) {
            shared
                .interested
                .entry(object.clone())
                .or_insert_with(|| Vec::with_capacity(1))
                .push(work.to_owned());
        }
        if !objects.is_empty() {
            shared.objects.insert(work.to_owned(), objects.into_iter().collect());
        }
    }

    /// Watches a resource, if it is not being watched.
    pub(crate) fn ensure(&self, served: &Served) {
        let id = served.id();
        let mut shared = self.lock();
        if shared.informers.contains_key(&id) {
            return;
        }
        let on_change = {
            let (id, wake, shared) = (id.clone(), self.wake.clone(), self.shared.clone());
            move |object: &DynamicObject| {
                let object = ObjectId { resource: id.clone(), key: ObjectKey::of(object) };
                let works = lock(&shared).interested.get(&object).cloned().unwrap_or_default();
                works.iter().for_each(|work| wake(work));
            }
        };
        let name = id.to_string();
        let informer =
            Informer::new_dynamic(self.client.clone(), &served.resource, watcher::Config::default())
                .trim(pack)
                .on_change(on_change)
                .spawn(&self.tasks, name);
        shared.informers.insert(id, informer);
    }

    /// An object as last heard of, if all of it was kept.
    pub(crate) fn get(&self, object: &ObjectId) -> Option<Arc<DynamicObject>> {
        let informer = self.lock().informers.get(&object.resource).cloned()?;
        informer.get(&object.key).filter(|object| owner::has_record(object)).and_then(|kept| unpacked(&kept))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes an object small: nothing but the name of one that is none of ours, and text of the others.
fn pack(object: &mut DynamicObject) {
    if owner::has_record(object) {
        object.data = Value::String(object.data.to_string().into_boxed_str().into_string());
    } else {
        object.data = Value::Null;
        object.metadata.annotations = None;
        object.metadata.labels = None;
    }
}

/// An object as it was before it was made small.
fn unpacked(kept: &DynamicObject) -> Option<Arc<DynamicObject>> {
    let Value::String(text) = &kept.data else { return None };
    let (types, metadata) = (kept.types.clone(), kept.metadata.clone());
    // It was written from a value.
    let data = serde_json::from_str(text).ok()?;
    Some(Arc::new(DynamicObject { types, metadata, data }))
}

impl fmt::Debug for Watches {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Watches")
            .field("resources", &self.lock().informers.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_ours_is_kept_as_text_and_of_all_else_the_name() {
        let owner = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork",
            "name": "record", "uid": "7"});
        let object = |owners: Value| -> DynamicObject {
            let object = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "Yg=="}, "other": [1, 2],
                "metadata": {"name": "a", "labels": {"b": "c"}, "ownerReferences": owners}});
            serde_json::from_value(object).unwrap()
        };
        let ours = object(json!([owner]));
        let mut kept = ours.clone();
        pack(&mut kept);
        assert!(kept.data.is_string());
        assert_eq!(*unpacked(&kept).unwrap(), ours);
        let mut foreign = object(json!([]));
        pack(&mut foreign);
        assert_eq!((foreign.data.clone(), foreign.metadata.labels.clone()), (Value::Null, None));
        assert!(unpacked(&foreign).is_none());
    }
}
