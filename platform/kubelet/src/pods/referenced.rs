//! The objects that pods of this node refer to, each under a watch of its own.
//!
//! A node sees only what its pods name, so there is no list of all of them to watch. A watch begins with the first pod that
//! needs the object, ends with the last, and wakes those pods when the object changes. An object that says it never changes
//! is read once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt as _};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::backoff::Policy;
use pilothouse_runtime::{Chain, OnExit, Tasks};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::Waker;
use super::references::{Kind, Reference};

/// How long the first answer about an object is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// All watched objects. A cheap handle.
#[derive(Clone)]
pub(crate) struct Referenced {
    inner: Arc<Inner>,
}

struct Inner {
    client: kube::Client,
    tasks: Tasks,
    waker: Waker,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watched: HashMap<Reference, Watched>,
    /// What each pod needs, by its uid.
    held: HashMap<String, BTreeSet<Reference>>,
}

struct Watched {
    /// The pods that need it, by uid.
    users: HashMap<String, ObjectKey>,
    seen: watch::Receiver<Seen>,
    stop: CancellationToken,
}

/// What is known of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Seen {
    /// Nobody has answered yet.
    #[default]
    Nothing,
    /// It was never seen, because of this.
    Failed(String),
    Absent,
    Present(Arc<Content>),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Content {
    pub(crate) version: String,
    pub(crate) entries: BTreeMap<String, Vec<u8>>,
    immutable: bool,
}

/// A kind of object that has entries.
trait Entries:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + DeserializeOwned
    + fmt::Debug
    + Send
    + 'static
{
    fn content(self) -> Content;
}

// === impl Content ===

impl Entries for ConfigMap {
    fn content(self) -> Content {
        let version = self.resource_version().unwrap_or_default();
        let text = self.data.unwrap_or_default().into_iter().map(|(key, text)| (key, text.into_bytes()));
        let mut entries: BTreeMap<String, Vec<u8>> = text.collect();
        entries.extend(self.binary_data.unwrap_or_default().into_iter().map(|(key, bytes)| (key, bytes.0)));
        Content { version, entries, immutable: self.immutable.unwrap_or(false) }
    }
}

impl Entries for Secret {
    fn content(self) -> Content {
        let version = self.resource_version().unwrap_or_default();
        let entries = self.data.unwrap_or_default().into_iter().map(|(key, bytes)| (key, bytes.0)).collect();
        Content { version, entries, immutable: self.immutable.unwrap_or(false) }
    }
}

impl From<ConfigMap> for Content {
    fn from(object: ConfigMap) -> Self {
        object.content()
    }
}

impl From<Secret> for Content {
    fn from(object: Secret) -> Self {
        object.content()
    }
}

// === impl Referenced ===

impl Referenced {
    pub(crate) fn new(client: kube::Client, tasks: Tasks, waker: Waker) -> Self {
        let inner = Inner { client, tasks, waker, state: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// From now on a pod needs exactly these.
    pub(crate) fn hold(&self, uid: &str, pod: &ObjectKey, wanted: &BTreeSet<Reference>) {
        let mut state = self.inner.lock();
        if state.held.get(uid).is_some_and(|held| held == wanted) {
            return;
        }
        let former = match wanted.is_empty() {
            true => state.held.remove(uid),
            false => state.held.insert(uid.to_owned(), wanted.clone()),
        };
        for reference in former.iter().flatten().filter(|reference| !wanted.contains(reference)) {
            state.drop_user(reference, uid);
        }
        for reference in wanted {
            let begin = || self.begin(reference.clone());
            let one = state.watched.entry(reference.clone()).or_insert_with(begin);
            one.users.entry(uid.to_owned()).or_insert_with(|| pod.clone());
        }
    }

    /// A pod needs nothing any more.
    pub(crate) fn release(&self, uid: &str, pod: &ObjectKey) {
        self.hold(uid, pod, &BTreeSet::new());
    }

    /// What is known of an object that some pod holds, after waiting for the first answer.
    pub(crate) async fn read(&self, reference: &Reference) -> Seen {
        let seen = self.inner.lock().watched.get(reference).map(|one| one.seen.clone());
        let Some(mut seen) = seen else { return Seen::Failed("nobody watches it".to_owned()) };
        match timeout(PATIENCE, seen.wait_for(|seen| *seen != Seen::Nothing)).await {
            Ok(Ok(seen)) => seen.clone(),
            Ok(Err(_)) => Seen::Failed("its watch has ended".to_owned()),
            Err(_) => Seen::Failed(format!("the API server did not answer within {} s", PATIENCE.as_secs())),
        }
    }

    /// The versions of some objects at this moment, for telling whether there is anything new.
    pub(crate) fn versions(&self, references: &BTreeSet<Reference>) -> Vec<Option<String>> {
        let state = self.inner.lock();
        let version = |reference: &Reference| match &*state.watched.get(reference)?.seen.borrow() {
            Seen::Present(content) => Some(content.version.clone()),
            Seen::Absent => Some(String::new()),
            Seen::Nothing | Seen::Failed(_) => None,
        };
        references.iter().map(version).collect()
    }

    fn begin(&self, reference: Reference) -> Watched {
        let (seen_tx, seen_rx) = watch::channel(Seen::Nothing);
        let stop = CancellationToken::new();
        let (inner, stopped) = (self.inner.clone(), stop.clone());
        let shutdown = self.inner.tasks.shutdown().clone();
        self.inner.tasks.spawn("reference", OnExit::Expendable, async move {
            let watching = async {
                match reference.kind {
                    Kind::ConfigMap => follow::<ConfigMap>(&inner, &reference, &seen_tx).await,
                    Kind::Secret => follow::<Secret>(&inner, &reference, &seen_tx).await,
                }
            };
            tokio::select! {
                () = watching => {}
                () = stopped.cancelled() => {}
                () = shutdown.requested() => {}
            }
            Ok(())
        });
        Watched { users: HashMap::new(), seen: seen_rx, stop }
    }
}

// === impl State ===

impl State {
    /// A pod no longer needs an object. With its last user the watch ends.
    fn drop_user(&mut self, reference: &Reference, uid: &str) {
        let Some(one) = self.watched.get_mut(reference) else { return };
        one.users.remove(uid);
        if one.users.is_empty() {
            one.stop.cancel();
            self.watched.remove(reference);
        }
    }
}

// === impl Inner ===

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is seen, and wakes the pods that need it if that is new.
    fn note(&self, reference: &Reference, seen: &watch::Sender<Seen>, new: Seen) {
        let is_new = seen.send_if_modified(|present| {
            let differs = *present != new;
            *present = new;
            differs
        });
        if is_new && let Some(one) = self.lock().watched.get(reference) {
            one.users.values().for_each(|pod| self.waker.wake(pod.clone()));
        }
    }
}

/// Follows one object until it says that it never changes.
async fn follow<K: Entries>(inner: &Inner, reference: &Reference, seen: &watch::Sender<Seen>) {
    let api: Api<K> = Api::namespaced(inner.client.clone(), &reference.namespace);
    let selected = watcher::Config::default().fields(&format!("metadata.name={}", reference.name));
    let mut events = pin!(watcher::watcher(api, selected));
    let mut delays = Policy::RECONNECT.delays();
    let mut listed = Seen::Absent;
    while let Some(event) = events.next().await {
        let present = |object: K| Seen::Present(Arc::new(object.content()));
        let new = match event {
            Ok(Event::Init) => {
                listed = Seen::Absent;
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed = present(object);
                continue;
            }
            Ok(Event::InitDone) => std::mem::replace(&mut listed, Seen::Absent),
            Ok(Event::Apply(object)) => present(object),
            Ok(Event::Delete(_)) => Seen::Absent,
            Err(error) => {
                debug!(object = %reference, error = %Chain(&error), "a watch was lost, trying again");
                // What was seen once is still the best that is known.
                if matches!(*seen.borrow(), Seen::Nothing | Seen::Failed(_)) {
                    inner.note(reference, seen, Seen::Failed(Chain(&error).to_string()));
                }
                if let Some(delay) = delays.next() {
                    tokio::time::sleep(delay).await;
                }
                continue;
            }
        };
        delays.reset();
        let is_over = matches!(&new, Seen::Present(content) if content.immutable);
        inner.note(reference, seen, new);
        if is_over {
            return;
        }
    }
}
