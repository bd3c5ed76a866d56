//! Objects over the store.
//!
//! All objects of a server are documents of one partition. The resource version is the store's revision, so it is one
//! strictly increasing counter over all kinds, which is what clients rely on. It is not part of a stored document,
//! because it is known only once the document is written; it is put in on the way out.
//!
//! Writes go to the store, with the etag of what was read as the precondition. Reads of one object go to the store too.
//! Lists and watches are answered from the [`Cache`], which follows the partition's feed; what lies before the cache's
//! memory is read from the store's own history, so a watch may resume across a restart of the server.
//!
//! Secrets live in a container of their own, whose data the store seals before any byte reaches a disk.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pilothouse_runtime::{Chain, Shutdown, TaskError};
use pilothouse_store::{
    Catalog, Conflict, Container, Document, DocumentId, Error, Etag, Partition, Precondition, Store,
    Transaction,
};
use serde_json::Value;
use tokio::time::Instant;
use tracing::error;

use crate::catalogue::Resource;
use crate::metrics::Metrics;
use crate::status::{Cause, Failure};

mod cache;
mod encoding;
mod event;
mod follow;
mod history;
mod page;
mod pulse;
mod topics;
mod watcher;

pub(crate) use cache::Cache;
pub(crate) use encoding::{converted, head, text, with_revision};
pub(crate) use history::Event;
pub(crate) use page::Listing;
use pulse::Pulse;
pub(crate) use watcher::{Lost, Watcher};

/// How long an Event is kept after its last change.
const EVENT_TIME_TO_LIVE: Duration = Duration::from_secs(3600);
/// What etcd takes in one request by default, and so what clients expect.
const LARGEST_OBJECT: usize = 3 << 19;
/// How long a request waits for the cache to reach a version that exists.
const CATCH_UP: Duration = Duration::from_secs(3);

/// The objects of one server. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    pub(super) store: Store,
    pub(super) partition: Partition,
    pub(super) containers: Arc<Containers>,
    pub(super) cache: Arc<Cache>,
    pulse: Arc<Pulse>,
}

#[derive(Debug)]
pub(crate) struct Containers {
    pub(super) objects: Container,
    pub(super) secrets: Container,
}

/// An object as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// With its resource version, at the API version that was asked for.
    pub(crate) value: Value,
    etag: Etag,
    id: DocumentId,
}

/// An object that must be as it was read for a write to take place.
#[derive(Clone, Debug)]
pub(crate) struct Tie {
    etag: Etag,
    id: DocumentId,
}

/// Another object that is written in the same transaction, in place of the one that was read.
#[derive(Debug)]
pub(crate) struct Along {
    pub(crate) resource: Arc<Resource>,
    pub(crate) former: Stored,
    pub(crate) value: Value,
}

/// Why a write did not take place.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// An object of that name is there.
    Exists,
    /// The object is not the one that was read, or is gone.
    Changed,
    /// The namespace, or what was to be written along, is not what was read.
    NamespaceChanged,
    Failed(Failure),
}

/// What the store must be opened with. It has secrets, so a keyring is needed as well.
pub fn catalog() -> Catalog {
    let Containers { objects, secrets } = Containers::new();
    // The two declarations are constants; a test opens a store with them.
    Catalog::try_new([objects, secrets]).unwrap_or_default()
}

impl Containers {
    fn new() -> Self {
        Self {
            objects: Container::new("objects"),
            secrets: Container::new("secrets").with_secret("/data").with_secret("/stringData"),
        }
    }

    pub(super) fn of(&self, resource: &Resource) -> &Container {
        if resource.is("", "secrets") { &self.secrets } else { &self.objects }
    }

    pub(super) fn holds(&self, container: &str) -> bool {
        [&self.objects, &self.secrets].iter().any(|one| one.name() == container)
    }
}

impl Storage {
    /// Reads everything there is.
    pub(crate) async fn load(store: Store, space: &str, metrics: Metrics) -> Result<Self, Error> {
        let partition = Partition::try_new(space)?;
        let containers = Arc::new(Containers::new());
        let cache = Arc::new(Cache::new(metrics));
        let storage = Self { store, partition, containers, cache, pulse: Arc::default() };
        storage.reload().await?;
        Ok(storage)
    }

    /// Keeps the cache up to date until shutdown. Nothing that was written is answered before this has seen it.
    pub(crate) async fn follow(self, shutdown: Shutdown) -> Result<(), TaskError> {
        follow::run(self, shutdown).await
    }

    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// One object, as it is now.
    pub(crate) async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Stored>, Failure> {
        let Some(document) = self.document(resource, namespace, name).await? else { return Ok(None) };
        let mut value: Value = document.parse().map_err(failed)?;
        encoding::stamp(&mut value, document.revision.number());
        encoding::convert(resource, &mut value);
        Ok(Some(Stored { value, etag: document.etag, id: document.id }))
    }

    /// One object, as it is now, in bytes.
    pub(crate) async fn get_bytes(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Bytes>, Failure> {
        let document = self.document(resource, namespace, name).await?;
        Ok(document.map(|document| {
            converted(resource, &encoding::encode(document.text(), document.revision.number()))
        }))
    }

    /// One object that a write can be tied to, and its text.
    pub(crate) async fn tie(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<(Tie, Document)>, Failure> {
        let document = self.document(resource, namespace, name).await?;
        Ok(document.map(|document| (Tie { etag: document.etag.clone(), id: document.id.clone() }, document)))
    }

    async fn document(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Document>, Failure> {
        // A name that no document can have belongs to no object.
        let Ok(id) = DocumentId::try_new(key(resource, namespace, name)) else { return Ok(None) };
        self.store.get(self.containers.of(resource), &self.partition, &id).await.map_err(failed)
    }

    /// Writes a new object, provided that its namespace is still as it was read, together with what goes along.
    pub(crate) async fn create(
        &self,
        resource: &Resource,
        (namespace, name): (&str, &str),
        within: Option<&Tie>,
        value: Value,
        along: &[Along],
    ) -> Result<Value, WriteError> {
        let id = DocumentId::try_new(key(resource, namespace, name)).map_err(written)?;
        let mut transaction = Transaction::new(self.partition.clone());
        self.put(&mut transaction, resource, &id, Precondition::Absent, &value)?;
        if let Some(within) = within {
            let unchanged = Precondition::Etag(within.etag.clone());
            transaction.check(&self.containers.objects, within.id.clone(), unchanged);
        }
        self.put_along(&mut transaction, along)?;
        let revision = self.commit(&transaction, &id).await?;
        Ok(stamped(encoding::as_stored(resource, value), revision))
    }

    /// Writes an object in place of the one that was read.
    pub(crate) async fn replace(
        &self,
        resource: &Resource,
        former: &Stored,
        value: &Value,
    ) -> Result<Value, WriteError> {
        self.replace_along(resource, former, value, &[]).await
    }

    /// Writes an object in place of the one that was read, together with what goes along.
    pub(crate) async fn replace_along(
        &self,
        resource: &Resource,
        former: &Stored,
        value: &Value,
        along: &[Along],
    ) -> Result<Value, WriteError> {
        let mut transaction = Transaction::new(self.partition.clone());
        let unchanged = Precondition::Etag(former.etag.clone());
        self.put(&mut transaction, resource, &former.id, unchanged, value)?;
        self.put_along(&mut transaction, along)?;
        let revision = self.commit(&transaction, &former.id).await?;
        Ok(stamped(encoding::as_stored(resource, value.clone()), revision))
    }

    /// Deletes the object that was read. The answer is its last state at the version of the deletion.
    pub(crate) async fn remove(&self, resource: &Resource, former: &Stored) -> Result<Value, WriteError> {
        let mut transaction = Transaction::new(self.partition.clone());
        let unchanged = Precondition::Etag(former.etag.clone());
        transaction.delete(self.containers.of(resource), former.id.clone(), unchanged);
        let revision = self.commit(&transaction, &former.id).await?;
        Ok(stamped(former.value.clone(), revision))
    }

    fn put_along(&self, transaction: &mut Transaction, along: &[Along]) -> Result<(), WriteError> {
        for Along { resource, former, value } in along {
            let unchanged = Precondition::Etag(former.etag.clone());
            self.put(transaction, resource, &former.id, unchanged, value)?;
        }
        Ok(())
    }

    fn put(
        &self,
        transaction: &mut Transaction,
        resource: &Resource,
        id: &DocumentId,
        precondition: Precondition,
        value: &Value,
    ) -> Result<(), WriteError> {
        let container = self.containers.of(resource);
        let text = encoding::for_storage(resource, value)
            .map_err(|error| WriteError::Failed(Failure::internal(error)))?;
        if text.get().len() > LARGEST_OBJECT && encoding::size(value) > LARGEST_OBJECT {
            return Err(WriteError::Failed(Failure::too_large(LARGEST_OBJECT)));
        }
        let is_event = resource.plural == "events" && matches!(&*resource.group, "" | "events.k8s.io");
        let time_to_live = is_event.then_some(EVENT_TIME_TO_LIVE);
        transaction.put_text(container, id.clone(), precondition, text, time_to_live);
        Ok(())
    }

    /// Commits, and waits until the cache has it: whoever is told that a write took place finds it in every list.
    async fn commit(&self, transaction: &Transaction, id: &DocumentId) -> Result<u64, WriteError> {
        let outcome = self.store.commit(transaction).await;
        self.pulse.wrote(&outcome, Instant::now());
        let committed = match outcome {
            Ok(committed) => committed,
            Err(Error::Conflict(Conflict::Exists { .. })) => return Err(WriteError::Exists),
            Err(Error::Conflict(
                Conflict::Changed { id: other, .. } | Conflict::Missing { id: other, .. },
            )) if &other != id => {
                return Err(WriteError::NamespaceChanged);
            }
            Err(Error::Conflict(_)) => return Err(WriteError::Changed),
            Err(error) => return Err(written(error)),
        };
        let revision = committed.revision.number();
        // Already durable; a cache that is slow to notice does not change the answer.
        let _ = tokio::time::timeout(CATCH_UP, self.cache.reach(revision)).await;
        Ok(revision)
    }

    /// Waits until the cache knows everything that was committed before this call, by whichever process.
    pub(crate) async fn consistent(&self) -> Result<(), Failure> {
        let newest = self.store.revision().await.map_err(failed)?.number();
        self.cache.hurry(newest);
        self.reached(newest).await
    }

    /// Waits until the cache is not older than a version.
    pub(crate) async fn not_older_than(&self, revision: u64) -> Result<(), Failure> {
        if self.cache.through() < revision {
            self.cache.hurry(revision);
        }
        self.reached(revision).await
    }

    pub(super) fn too_large(&self, revision: u64) -> Failure {
        let current = self.cache.through();
        Failure::timeout(format!("Timeout: Too large resource version: {revision}, current: {current}"))
            .with_cause(Cause::new("ResourceVersionTooLarge", "Too large resource version", ""))
    }

    async fn reached(&self, revision: u64) -> Result<(), Failure> {
        let waited = tokio::time::timeout(CATCH_UP, self.cache.reach(revision)).await;
        waited.map_err(|_| self.too_large(revision))
    }
}

/// The document that holds an object: `pods/default/web`, `nodes//worker`, `deployments.apps/default/web`. The order of
/// these is the order of lists.
pub(crate) fn key(resource: &Resource, namespace: &str, name: &str) -> String {
    format!("{}{name}", prefix(resource, Some(if resource.namespaced { namespace } else { "" })))
}

/// What the keys of a collection start with.
pub(crate) fn prefix(resource: &Resource, namespace: Option<&str>) -> String {
    let collection = if event::is_other_form(resource) { "events".to_owned() } else { resource.qualified() };
    match namespace {
        Some(namespace) => format!("{collection}/{namespace}/"),
        None => format!("{collection}/"),
    }
}

/// What a list or a watch is about: a collection, a namespace of it, or a single object. All keys that it is about start with it.
pub(crate) fn topic(resource: &Resource, namespace: Option<&str>, name: Option<&str>) -> String {
    match (namespace, name) {
        (Some(namespace), Some(name)) => key(resource, namespace, name),
        (None, Some(name)) if !resource.namespaced => key(resource, "", name),
        _ => prefix(resource, namespace),
    }
}

fn stamped(mut value: Value, revision: u64) -> Value {
    encoding::stamp(&mut value, revision);
    value
}

fn written(error: Error) -> WriteError {
    WriteError::Failed(failed(error))
}

/// What a caller is told of the store's troubles. The whole story is in the log.
pub(crate) fn failed(error: Error) -> Failure {
    match error {
        Error::TooOld { .. } => Failure::expired("The resourceVersion for the provided list is too old."),
        Error::Unavailable { .. } | Error::Closed => Failure::unavailable("the store is not available"),
        Error::Full { .. } => Failure::unavailable(error.to_string()),
        Error::Invalid { .. } => Failure::bad_request(error.to_string()),
        error => {
            error!(error = %Chain(&error), "the store failed");
            Failure::internal(error)
        }
    }
}
