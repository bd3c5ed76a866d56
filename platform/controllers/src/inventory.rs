//! Every object there is, as little as possible about each.
//!
//! Who owns whom is a graph over all resources, custom ones included. Keeping whole objects for it would cost more
//! memory than everything else; an [`Item`] is an object's name, uid, owners and the three facts about its deletion that
//! garbage collection acts on. Events that change none of these are not passed on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ApiResource;
use pilothouse_informer::ObjectKey;

/// The finalizer by which an object waits for its dependents to go first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer by which an object waits until its dependents were let go.
pub(crate) const ORPHAN: &str = "orphan";

/// All objects, of every resource that can be watched.
#[derive(Default)]
pub(crate) struct Inventory {
    state: Mutex<State>,
    /// Resources whose objects come from the controllers' own watches.
    covered: RwLock<BTreeSet<String>>,
    listeners: OnceLock<Vec<Listener>>,
}

/// Told of every change.
pub(crate) type Listener = Box<dyn Fn(&Change) + Send + Sync>;

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) key: ObjectKey,
    pub(crate) uid: String,
    pub(crate) owners: Vec<Owner>,
    pub(crate) deletion: Deletion,
    /// Who holds its deletion back.
    pub(crate) finalizers: Box<[String]>,
}

/// What an object says about one of its owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    /// Whether the owner's foreground deletion waits for this object.
    pub(crate) blocks: bool,
}

/// How far an object's deletion has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// Nobody asked for it. Holds what is asked for once somebody does.
    No(Policy),
    /// It is under way, and garbage collection has this to do first.
    Yes(Policy),
}

/// What becomes of dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Background,
    Foreground,
    Orphan,
}

/// One object before and after something happened to it.
pub(crate) struct Change {
    pub(crate) before: Option<Arc<Item>>,
    pub(crate) after: Option<Arc<Item>>,
}

/// What is left of one resource in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remaining {
    pub(crate) resource: String,
    pub(crate) objects: usize,
    /// How many of them are on their way out.
    pub(crate) deleting: usize,
    /// How many objects each finalizer holds.
    pub(crate) finalizers: BTreeMap<String, usize>,
}

#[derive(Default)]
struct State {
    /// Namespace first, so that one namespace's objects lie together.
    by_place: BTreeMap<Place, Arc<Item>>,
    by_uid: HashMap<String, Arc<Item>>,
    /// Uids of dependents by the uid of their owner, which need not exist.
    dependents: HashMap<String, BTreeSet<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    namespace: Option<String>,
    resource: String,
    name: String,
}

// === impl Inventory ===

impl Inventory {
    /// Tells of every change. Once, before anything is seen.
    pub(crate) fn listen(&self, listeners: Vec<Listener>) {
        // A second set would be a mistake in `service`, and is ignored.
        let _ = self.listeners.set(listeners);
    }

    /// Says that the objects of this resource come from somewhere else.
    pub(crate) fn covers(&self, resource: &ApiResource) {
        self.covered.write().unwrap_or_else(PoisonError::into_inner).insert(full_name(resource));
    }

    pub(crate) fn is_covered(&self, resource: &ApiResource) -> bool {
        self.covered.read().unwrap_or_else(PoisonError::into_inner).contains(&full_name(resource))
    }

    /// This object exists, in this form.
    pub(crate) fn seen(&self, resource: &Arc<ApiResource>, metadata: &ObjectMeta) {
        let Some(item) = Item::of(resource, metadata) else { return };
        let item = Arc::new(item);
        let before = {
            let mut state = self.lock();
            let place = Place::of(resource, &item.key);
            match state.by_place.get(&place) {
                Some(before) if **before == *item => return,
                _ => {}
            }
            let before = state.remove(&place);
            state.insert(place, item.clone());
            before
        };
        match before {
            // Deleted and made anew behind our back: two changes.
            Some(before) if before.uid != item.uid => {
                self.announce(&Change { before: Some(before), after: None });
                self.announce(&Change { before: None, after: Some(item) });
            }
            before => self.announce(&Change { before, after: Some(item) }),
        }
    }

    /// No such object exists.
    pub(crate) fn gone(&self, resource: &ApiResource, key: &ObjectKey) {
        let before = self.lock().remove(&Place::of(resource, key));
        if before.is_some() {
            self.announce(&Change { before, after: None });
        }
    }

    /// Only these objects of the resource exist.
    pub(crate) fn retain(&self, resource: &ApiResource, keys: &BTreeSet<ObjectKey>) {
        let name = full_name(resource);
        let vanished: Vec<_> = self
            .lock()
            .by_place
            .iter()
            .filter(|(place, item)| place.resource == name && !keys.contains(&item.key))
            .map(|(_, item)| item.key.clone())
            .collect();
        for key in vanished {
            self.gone(resource, &key);
        }
    }

    pub(crate) fn item(&self, uid: &str) -> Option<Arc<Item>> {
        self.lock().by_uid.get(uid).cloned()
    }

    /// The objects that name this one as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Arc<Item>> {
        let state = self.lock();
        let uids = state.dependents.get(uid).into_iter().flatten();
        uids.filter_map(|uid| state.by_uid.get(uid).cloned()).collect()
    }

    /// What a namespace still holds.
    pub(crate) fn remaining(&self, namespace: &str) -> Vec<Remaining> {
        let state = self.lock();
        let mut remaining: Vec<Remaining> = Vec::new();
        for (place, item) in state.by_place.range(Place::first_of(namespace)..) {
            if place.namespace.as_deref() != Some(namespace) {
                break;
            }
            if remaining.last().is_none_or(|last| last.resource != place.resource) {
                let resource = place.resource.clone();
                remaining.push(Remaining { resource, objects: 0, deleting: 0, finalizers: BTreeMap::new() });
            }
            if let Some(last) = remaining.last_mut() {
                last.objects += 1;
                last.deleting += usize::from(item.is_deleting());
                for finalizer in &item.finalizers {
                    *last.finalizers.entry(finalizer.clone()).or_default() += 1;
                }
            }
        }
        remaining
    }

    /// The uids that garbage collection has to look at.
    pub(crate) fn candidates(&self) -> Vec<String> {
        self.lock()
            .by_uid
            .values()
            .filter(|item| item.concerns_garbage())
            .map(|item| item.uid.clone())
            .collect()
    }

    fn announce(&self, change: &Change) {
        for listener in self.listeners.get().into_iter().flatten() {
            listener(change);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each step leaves the maps consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A resource's name that is unique in a cluster.
pub(crate) fn full_name(resource: &ApiResource) -> String {
    if resource.group.is_empty() {
        resource.plural.clone()
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
}

// === impl State ===

impl State {
    fn insert(&mut self, place: Place, item: Arc<Item>) {
        for owner in &item.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(item.uid.clone());
        }
        self.by_uid.insert(item.uid.clone(), item.clone());
        self.by_place.insert(place, item);
    }

    fn remove(&mut self, place: &Place) -> Option<Arc<Item>> {
        let item = self.by_place.remove(place)?;
        self.by_uid.remove(&item.uid);
        for owner in &item.owners {
            if let Some(uids) = self.dependents.get_mut(&owner.uid) {
                uids.remove(&item.uid);
                if uids.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        Some(item)
    }
}

impl Place {
    fn of(resource: &ApiResource, key: &ObjectKey) -> Self {
        Self { namespace: key.namespace.clone(), resource: full_name(resource), name: key.name.clone() }
    }

    fn first_of(namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), resource: String::new(), name: String::new() }
    }
}

// === impl Item ===

impl Item {
    pub(crate) fn of(resource: &Arc<ApiResource>, metadata: &ObjectMeta) -> Option<Self> {
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        let policy = if finalizers.iter().any(|name| name == ORPHAN) {
            Policy::Orphan
        } else if finalizers.iter().any(|name| name == FOREGROUND) {
            Policy::Foreground
        } else {
            Policy::Background
        };
        let owners = metadata.owner_references.iter().flatten().map(|owner| Owner {
            uid: owner.uid.clone(),
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            blocks: owner.block_owner_deletion == Some(true),
        });
        Some(Self {
            resource: resource.clone(),
            key: ObjectKey { namespace: metadata.namespace.clone(), name: metadata.name.clone()? },
            uid: metadata.uid.clone()?,
            owners: owners.collect(),
            deletion: match metadata.deletion_timestamp {
                Some(_) => Deletion::Yes(policy),
                None => Deletion::No(policy),
            },
            finalizers: finalizers.into(),
        })
    }

    /// Whether its deletion waits until its dependents are gone.
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.deletion == Deletion::Yes(Policy::Foreground)
    }

    pub(crate) fn is_deleting(&self) -> bool {
        matches!(self.deletion, Deletion::Yes(_))
    }

    /// Whether there could be something to do about it.
    pub(crate) fn concerns_garbage(&self) -> bool {
        !self.owners.is_empty() || matches!(self.deletion, Deletion::Yes(Policy::Foreground | Policy::Orphan))
    }
}

#[cfg(test)]
mod tests;
