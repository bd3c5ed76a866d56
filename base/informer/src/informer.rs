//! One watched resource.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};

use futures::StreamExt;
use kube::api::ApiResource;
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt};
use pilothouse_runtime::backoff::Policy;
use pilothouse_runtime::{Chain, OnExit, Tasks};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::key::ObjectKey;

type OnChange<K> = Box<dyn Fn(&K) + Send + Sync>;
type Trim<K> = Box<dyn Fn(&mut K) + Send + Sync>;

/// The cache of one watched resource. A cheap handle.
pub struct Informer<K> {
    shared: Arc<Shared<K>>,
}

/// A watch that has not begun.
#[must_use = "nothing is watched until it is spawned"]
pub struct Builder<K> {
    api: Api<K>,
    config: watcher::Config,
    on_change: Vec<OnChange<K>>,
    trim: Option<Trim<K>>,
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    objects: RwLock<BTreeMap<ObjectKey, Arc<K>>>,
    synced: watch::Sender<bool>,
}

/// What a watch goes through, apart from the connection that it comes over.
struct Feed<K> {
    shared: Arc<Shared<K>>,
    on_change: Vec<OnChange<K>>,
    trim: Option<Trim<K>>,
    /// What a list has brought so far; it replaces the cache when it is complete.
    listing: BTreeMap<ObjectKey, Arc<K>>,
}

// === impl Informer ===

impl<K> Informer<K> {
    /// Watches what `api` and `config` select, once [spawned](Builder::spawn).
    #[expect(clippy::new_ret_no_self, reason = "an informer exists once its watch does")]
    pub fn new(api: Api<K>, config: watcher::Config) -> Builder<K> {
        let shared = Shared { objects: RwLock::default(), synced: watch::Sender::new(false) };
        Builder { api, config, on_change: Vec::new(), trim: None, shared: Arc::new(shared) }
    }

    /// Returns once the first list is in the cache.
    pub async fn synced(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.shared.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Whether the first list is in the cache.
    pub fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// The object of this key, as last heard of.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.shared.read(|objects| objects.get(key).cloned())
    }

    /// All objects, ordered by key.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.shared.read(|objects| objects.values().cloned().collect())
    }

    /// All objects of one namespace, ordered by name.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        let first = Bound::Included(ObjectKey::namespaced(namespace, ""));
        self.shared.read(|objects| {
            objects
                .range((first, Bound::Unbounded))
                .take_while(|(key, _)| key.namespace.as_deref() == Some(namespace))
                .map(|(_, object)| object.clone())
                .collect()
        })
    }

    /// All keys, in order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.shared.read(|objects| objects.keys().cloned().collect())
    }
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Informer")
            .field("objects", &self.shared.read(BTreeMap::len))
            .field("synced", &self.is_synced())
            .finish()
    }
}

impl Informer<DynamicObject> {
    /// Watches a resource that is known only by name.
    pub fn new_dynamic(
        client: kube::Client,
        resource: &ApiResource,
        config: watcher::Config,
    ) -> Builder<DynamicObject> {
        Self::new(Api::all_with(client, resource), config)
    }
}

// === impl Builder ===

impl<K> Builder<K> {
    /// Calls back after every change, with what was changed or deleted.
    pub fn on_change(mut self, callback: impl Fn(&K) + Send + Sync + 'static) -> Self {
        self.on_change.push(Box::new(callback));
        self
    }

    /// Drops what nobody reads before an object is cached.
    pub fn trim(mut self, trim: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.trim = Some(Box::new(trim));
        self
    }

    /// The cache that will be filled: for callbacks that read it.
    pub fn informer(&self) -> Informer<K> {
        Informer { shared: self.shared.clone() }
    }
}

impl<K> Builder<K>
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
    K::DynamicType: Clone,
{
    /// Watches, as a task of this name, until the shutdown of its owner.
    pub fn spawn(self, tasks: &Tasks, name: impl Into<String>) -> Informer<K> {
        let informer = self.informer();
        let shutdown = tasks.shutdown().clone();
        let name = name.into();
        tasks.spawn(format!("watch-{name}"), OnExit::StopProcess, async move {
            tokio::select! {
                () = shutdown.requested() => {}
                () = self.watch(&name) => {}
            }
            Ok(())
        });
        informer
    }

    async fn watch(self, name: &str) {
        let mut feed = Feed {
            shared: self.shared,
            on_change: self.on_change,
            trim: self.trim,
            listing: BTreeMap::new(),
        };
        let mut events = pin!(watcher::watcher(self.api, self.config));
        let mut delays = Policy::RECONNECT.delays();
        let mut healthy = true;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // Only what the server has really sent: a list that is begun may still fail.
                    if !matches!(event, Event::Init) {
                        healthy = true;
                        delays.reset();
                    }
                    feed.take(event);
                }
                Err(error) => {
                    if healthy {
                        warn!(resource = name, error = %Chain(&error), "watch lost, trying again");
                    } else {
                        debug!(resource = name, error = %Chain(&error), "watch still lost");
                    }
                    healthy = false;
                    if let Some(delay) = delays.next() {
                        tokio::time::sleep(delay).await;
                    }
                }
            }
        }
    }
}

impl<K> fmt::Debug for Builder<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Builder").field("config", &self.config).finish_non_exhaustive()
    }
}

// === impl Feed ===

impl<K: Resource + Clone> Feed<K> {
    fn take(&mut self, event: Event<K>) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => {
                let (key, object) = self.admit(object);
                self.listing.insert(key, object);
            }
            Event::InitDone => self.replace(),
            Event::Apply(object) => {
                let (key, object) = self.admit(object);
                self.shared.write(|objects| objects.insert(key, object.clone()));
                self.announce(&object);
            }
            Event::Delete(object) => {
                let (key, object) = self.admit(object);
                self.shared.write(|objects| objects.remove(&key));
                self.announce(&object);
            }
        }
    }

    /// A list is complete: it is the truth now, and whatever it lacks is gone.
    fn replace(&mut self) {
        let listing = std::mem::take(&mut self.listing);
        let current: Vec<_> = listing.values().cloned().collect();
        let before = self.shared.write(|objects| std::mem::replace(objects, listing));
        self.shared.synced.send_replace(true);
        let vanished: Vec<_> = self.shared.read(|objects| {
            before.iter().filter(|(key, _)| !objects.contains_key(*key)).map(|(_, o)| o.clone()).collect()
        });
        for object in current.iter().chain(&vanished) {
            self.announce(object);
        }
    }

    fn admit(&self, mut object: K) -> (ObjectKey, Arc<K>) {
        // Bookkeeping of the server, often half of an object; nobody here reads it.
        object.meta_mut().managed_fields = None;
        if let Some(trim) = &self.trim {
            trim(&mut object);
        }
        let key = ObjectKey { namespace: object.namespace(), name: object.name_any() };
        (key, Arc::new(object))
    }

    fn announce(&self, object: &K) {
        for callback in &self.on_change {
            callback(object);
        }
    }
}

// === impl Shared ===

impl<K> Shared<K> {
    fn read<R>(&self, look: impl FnOnce(&BTreeMap<ObjectKey, Arc<K>>) -> R) -> R {
        look(&self.objects.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&self, change: impl FnOnce(&mut BTreeMap<ObjectKey, Arc<K>>) -> R) -> R {
        change(&mut self.objects.write().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;

    use super::*;

    fn config_map(namespace: &str, name: &str) -> ConfigMap {
        let metadata = ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            managed_fields: Some(Vec::new()),
            ..ObjectMeta::default()
        };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    /// What callbacks heard: the key, and how many objects the cache held then.
    type Heard = Arc<Mutex<Vec<(String, usize)>>>;

    /// A feed, its cache, and what the callbacks heard.
    fn feed() -> (Feed<ConfigMap>, Informer<ConfigMap>, Heard) {
        let shared = Arc::new(Shared { objects: RwLock::default(), synced: watch::Sender::new(false) });
        let informer = Informer { shared: shared.clone() };
        let heard = Arc::new(Mutex::new(Vec::new()));
        let on_change: OnChange<ConfigMap> = Box::new({
            let (heard, informer) = (heard.clone(), informer.clone());
            move |object| {
                let entry = (ObjectKey::of(object).to_string(), informer.list().len());
                heard.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
            }
        });
        let feed = Feed { shared, on_change: vec![on_change], trim: None, listing: BTreeMap::new() };
        (feed, informer, heard)
    }

    fn take_heard(heard: &Heard) -> Vec<(String, usize)> {
        std::mem::take(&mut heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[test]
    fn cache_holds_a_change_before_it_is_announced() {
        let (mut feed, informer, heard) = feed();
        feed.take(Event::Apply(config_map("one", "a")));
        assert_eq!(take_heard(&heard), [("one/a".to_owned(), 1)]);
        feed.take(Event::Delete(config_map("one", "a")));
        assert_eq!(take_heard(&heard), [("one/a".to_owned(), 0)]);
        assert!(informer.list().is_empty());
    }

    #[test]
    fn list_replaces_the_cache_only_when_it_is_complete_and_announces_what_vanished() {
        let (mut feed, informer, heard) = feed();
        feed.take(Event::Apply(config_map("one", "gone")));
        take_heard(&heard);

        feed.take(Event::Init);
        feed.take(Event::InitApply(config_map("one", "a")));
        assert!(!informer.is_synced());
        assert_eq!(informer.keys(), [ObjectKey::namespaced("one", "gone")]);
        feed.take(Event::InitDone);

        assert!(informer.is_synced());
        assert_eq!(informer.keys(), [ObjectKey::namespaced("one", "a")]);
        assert_eq!(take_heard(&heard), [("one/a".to_owned(), 1), ("one/gone".to_owned(), 1)]);
    }

    #[test]
    fn namespaces_are_listed_apart_and_without_the_servers_bookkeeping() {
        let (mut feed, informer, _heard) = feed();
        for (namespace, name) in [("a", "1"), ("b", "1"), ("b", "2"), ("bb", "1")] {
            feed.take(Event::Apply(config_map(namespace, name)));
        }
        let found: Vec<_> = informer.list_in("b").iter().map(|object| object.name_any()).collect();
        assert_eq!(found, ["1", "2"]);
        assert!(informer.list().iter().all(|object| object.metadata.managed_fields.is_none()));
    }
}
