//! Which resources the server has, and watching those that no controller watches by itself.
//!
//! One key, because there is one answer. It is asked again when a custom resource definition changes.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::api::ApiResource;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::discovery::{Discovery, Scope, verbs};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Chain, Next, OnExit, Policy, Reconcile, TaskError, Tasks};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::calls::required;
use crate::inventory::{Inventory, full_name};
use crate::watches::Caches;

/// Any object, without its body.
pub(crate) type Metadata = PartialObjectMeta<DynamicObject>;

/// A resource that objects can be deleted of.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) api: Arc<ApiResource>,
    pub(crate) namespaced: bool,
    pub(crate) deletes_collections: bool,
    watchable: bool,
}

/// What the last discovery found. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Resources {
    found: watch::Sender<Arc<Vec<Resource>>>,
}

/// Keeps [`Resources`] and the inventory's watches up to date.
pub(crate) struct Finder {
    client: Client,
    caches: Caches,
    resources: Resources,
    inventory: Arc<Inventory>,
    tasks: Tasks,
    watches: Mutex<BTreeMap<String, Running>>,
}

/// Looks again when told to.
pub(crate) struct Refresh(pub(crate) Arc<Finder>);

struct Running {
    stop: CancellationToken,
    synced: watch::Receiver<bool>,
}

/// How long to wait for a definition that is there but not served yet. An event comes when it is; this is for the case that the
/// server needs a moment longer.
const NOT_SERVED_YET: Duration = Duration::from_secs(5);

/// Events are written by the thousand, own nothing and are owned by nothing.
const UNWATCHED: [&str; 2] = ["events", "events.events.k8s.io"];

// === impl Resources ===

impl Resources {
    pub(crate) fn all(&self) -> Arc<Vec<Resource>> {
        self.found.borrow().clone()
    }

    /// Returns once there was a first answer.
    pub(crate) async fn found(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.found.subscribe().wait_for(|found| !found.is_empty()).await;
    }

    /// The resource of this kind.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<Resource> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        // Owners may be named by another version than the one that is watched.
        self.all().iter().find(|resource| resource.api.kind == kind && resource.api.group == group).cloned()
    }

    fn replace(&self, found: Vec<Resource>) {
        self.found.send_replace(Arc::new(found));
    }
}

impl Default for Resources {
    fn default() -> Self {
        Self { found: watch::Sender::new(Arc::default()) }
    }
}

impl Resource {
    /// A resource whose objects were seen.
    pub(crate) fn known(api: Arc<ApiResource>, namespaced: bool) -> Self {
        Self { api, namespaced, deletes_collections: false, watchable: true }
    }

    /// Whether the inventory hears of its objects.
    pub(crate) fn is_watched(&self) -> bool {
        self.watchable && !UNWATCHED.contains(&full_name(&self.api).as_str())
    }

    /// Its objects in one place.
    pub(crate) fn api(&self, client: &Client, namespace: Option<&str>) -> Api<Metadata> {
        match namespace {
            Some(namespace) if self.namespaced => Api::namespaced_with(client.clone(), namespace, &*self.api),
            _ => Api::all_with(client.clone(), &*self.api),
        }
    }
}

// === impl Finder ===

impl Finder {
    pub(crate) fn new(
        client: Client,
        caches: Caches,
        resources: Resources,
        inventory: Arc<Inventory>,
        tasks: Tasks,
    ) -> Self {
        Self { client, caches, resources, inventory, tasks, watches: Mutex::default() }
    }

    /// Asks the server what it has, and begins and ends watches accordingly.
    pub(crate) async fn look(&self) -> Result<(), TaskError> {
        let discovery = match Discovery::new(self.client.clone()).run_aggregated().await {
            Ok(discovery) => discovery,
            Err(error) => {
                debug!(%error, "no aggregated discovery");
                required("discover resources", Discovery::new(self.client.clone()).run()).await?
            }
        };
        let mut found = Vec::new();
        for group in discovery.groups() {
            for (api, capabilities) in group.resources_by_stability() {
                if !capabilities.supports_operation(verbs::LIST)
                    || !capabilities.supports_operation(verbs::DELETE)
                {
                    continue;
                }
                found.push(Resource {
                    api: Arc::new(api),
                    namespaced: capabilities.scope == Scope::Namespaced,
                    deletes_collections: capabilities.supports_operation(verbs::DELETE_COLLECTION),
                    watchable: capabilities.supports_operation(verbs::WATCH),
                });
            }
        }
        self.adjust_watches(&found);
        self.resources.replace(found);
        Ok(())
    }

    /// Returns once the first list of every watch that runs now is in.
    pub(crate) async fn synced(&self) {
        let waiting: Vec<_> = self.lock().values().map(|running| running.synced.clone()).collect();
        for mut synced in waiting {
            // A watch that ended meanwhile has nothing to wait for.
            let _ = synced.wait_for(|synced| *synced).await;
        }
    }

    fn adjust_watches(&self, found: &[Resource]) {
        let wanted: BTreeMap<_, _> = found
            .iter()
            .filter(|resource| resource.is_watched() && !self.inventory.is_covered(&resource.api))
            .map(|resource| (full_name(&resource.api), resource))
            .collect();
        let mut watches = self.lock();
        watches.retain(|name, running| {
            let stays = wanted.contains_key(name);
            if !stays {
                info!(resource = name, "no longer served");
                running.stop.cancel();
            }
            stays
        });
        for (name, resource) in wanted {
            watches.entry(name).or_insert_with(|| self.begin(resource));
        }
    }

    fn begin(&self, resource: &Resource) -> Running {
        let stop = self.tasks.shutdown().token();
        let (synced_tx, synced) = watch::channel(false);
        let api = resource.api(&self.client, None);
        let (resource, inventory, stopped) = (resource.api.clone(), self.inventory.clone(), stop.clone());
        self.tasks.spawn("inventory", OnExit::LogError, async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = follow(api, &resource, &inventory, &synced_tx) => {}
            }
            // Either the process ends, or nobody serves the resource any more.
            inventory.retain(&resource, &BTreeSet::new());
            Ok(())
        });
        Running { stop, synced }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Running>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a definition is there whose resource is not.
    fn lacks_a_definition(&self, definitions: &Informer<impl kube::Resource>) -> bool {
        let found = self.resources.all();
        let served: BTreeSet<_> = found.iter().map(|resource| full_name(&resource.api)).collect();
        // A definition's name is the full name of its resource.
        definitions.list().iter().any(|definition| {
            let metadata = definition.meta();
            metadata.deletion_timestamp.is_none()
                && metadata.name.as_ref().is_some_and(|name| !served.contains(name))
        })
    }
}

impl Reconcile for Refresh {
    type Key = &'static str;

    async fn list(&self) -> Result<Vec<Self::Key>, TaskError> {
        Ok(vec!["resources"])
    }

    async fn reconcile(&self, _key: &Self::Key) -> Result<Next, TaskError> {
        self.0.look().await?;
        Ok(if self.0.lacks_a_definition(&self.0.caches.definitions) {
            Next::After(NOT_SERVED_YET)
        } else {
            Next::Done
        })
    }
}

/// Feeds the inventory from one resource.
async fn follow(
    api: Api<Metadata>,
    resource: &Arc<ApiResource>,
    inventory: &Inventory,
    synced: &watch::Sender<bool>,
) {
    let mut events = pin!(watcher(api, watcher::Config::default()));
    let mut delays = Policy::RECONNECT.delays();
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                listed.insert(key(&object));
                inventory.seen(resource, &object.metadata);
            }
            Ok(Event::InitDone) => {
                inventory.retain(resource, &std::mem::take(&mut listed));
                synced.send_replace(true);
                delays.reset();
            }
            Ok(Event::Apply(object)) => {
                delays.reset();
                inventory.seen(resource, &object.metadata);
            }
            Ok(Event::Delete(object)) => {
                delays.reset();
                inventory.gone(resource, &key(&object));
            }
            Err(error) => {
                debug!(resource = full_name(resource), error = %Chain(&error), "watch lost, trying again");
                if let Some(delay) = delays.next() {
                    tokio::time::sleep(delay).await;
                }
            }
        }
    }
}

fn key(object: &Metadata) -> ObjectKey {
    ObjectKey {
        namespace: object.metadata.namespace.clone(),
        name: object.metadata.name.clone().unwrap_or_default(),
    }
}
