//! What is stored.
//!
//! Everything is in one partition, so that a bundle and the note that it has to be sent are one transaction. Payloads
//! contain Kubernetes secrets; they are sealed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use jiff::Timestamp;
use pilothouse_store::{
    Catalog, Committed, Conflict, Container, Continue, Document, DocumentId, Error, Partition, Precondition,
    Query, Revision, Store, Transaction,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::server::stored_event::StoredEvent;

/// Where a bundle has its manifests, with all that is secret in it.
const MANIFESTS: &str = "/payload/data";
/// Bundles that are read at once where all are gone through.
const SCANNED: usize = 100;

/// A bundle, with its manifests, or referring to them in the text that it was read from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(serialize = "D: Serialize", deserialize = "D: Deserialize<'de>"))]
pub(super) struct Resource<D: Deref<Target = RawValue> = Box<RawValue>> {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) source: String,
    pub(super) consumer_name: String,
    pub(super) version: i32,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deleted_at: Option<Timestamp>,
    /// The source's event.
    pub(super) payload: StoredEvent<D>,
    /// The agent's last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<StoredEvent<D>>,
}

/// A bundle in the text that it was read from. Its manifests may be sealed.
pub(super) type Seen<'a> = Resource<&'a RawValue>;

/// A note that a bundle has to be sent. It has the bundle's id: what is sent is the bundle as it is then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) action: NoteAction,
    /// Whom it is for. Empty in notes of former versions.
    #[serde(default)]
    pub(super) consumer: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NoteAction {
    Create,
    Update,
    Delete,
}

/// A cluster that bundles can be sent to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ConsumerRecord {
    pub(super) id: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

/// The containers in a store.
#[derive(Clone, Debug)]
pub(super) struct Records {
    pub(super) store: Store,
    pub(super) partition: Partition,
    pub(super) consumers: Container,
    pub(super) resources: Container,
    pub(super) notes: Container,
    pub(super) replicas: Container,
}

/// What the server's store must be opened with. It has secrets, so the store needs a keyring.
pub fn catalog() -> Catalog {
    // The names are valid, and there is nothing else that could be wrong.
    Catalog::try_new([consumers(), resources(), notes(), replicas()]).unwrap_or_default()
}

fn consumers() -> Container {
    Container::new("consumers").with_index("id", "/id")
}

fn resources() -> Container {
    Container::new("resources")
        .with_index("consumer", "/consumer_name")
        .with_index("source", "/source")
        // Under `name=value`, whichever labels there are.
        .with_index("label", "/payload/metadata/labels/*")
        .with_secret(MANIFESTS)
}

/// Without an index: a note is written and removed with every bundle, and all that there are at a time are few.
fn notes() -> Container {
    Container::new("notes")
}

fn replicas() -> Container {
    Container::new("replicas")
}

// === impl Records ===

impl Records {
    pub(super) fn try_new(store: Store) -> Result<Self, Error> {
        Ok(Self {
            store,
            partition: Partition::try_new("maestro")?,
            consumers: consumers(),
            resources: resources(),
            notes: notes(),
            replicas: replicas(),
        })
    }

    pub(super) fn transaction(&self) -> Transaction {
        Transaction::new(self.partition.clone())
    }

    pub(super) async fn resource(&self, id: &str) -> Result<Option<(Document, Resource)>, Error> {
        self.read(&self.resources, id).await
    }

    pub(super) async fn note(&self, id: &str) -> Result<Option<(Document, Note)>, Error> {
        self.read(&self.notes, id).await
    }

    pub(super) async fn consumer(&self, name: &str) -> Result<Option<(Document, ConsumerRecord)>, Error> {
        self.read(&self.consumers, name).await
    }

    pub(super) async fn consumer_by_id(&self, id: &str) -> Result<Option<(Document, ConsumerRecord)>, Error> {
        let query = Query::partition(&self.consumers, &self.partition).matching("id", id).limit(1);
        let page = self.store.list(query).await?;
        page.documents
            .into_iter()
            .next()
            .map(|document| Ok((document.clone(), document.parse()?)))
            .transpose()
    }

    async fn read<T: DeserializeOwned>(
        &self,
        container: &Container,
        id: &str,
    ) -> Result<Option<(Document, T)>, Error> {
        // What cannot be an id is not there.
        let Ok(id) = DocumentId::try_new(id) else { return Ok(None) };
        let found = self.store.get(container, &self.partition, &id).await?;
        found.map(|document| Ok((document.clone(), document.parse()?))).transpose()
    }

    /// All documents of a container.
    pub(super) async fn all<T: DeserializeOwned>(&self, container: &Container) -> Result<Vec<T>, Error> {
        self.each(Query::partition(container, &self.partition), Document::parse).await
    }

    /// A bundle as it was at a revision.
    pub(super) async fn resource_at(&self, id: &DocumentId, at: Revision) -> Result<Option<Document>, Error> {
        self.store.get_at(&self.resources, &self.partition, id, at).await
    }

    /// Shows all bundles that an index has under a value, or all there are, in the order of their ids, and holds only a few
    /// of them at a time. They are of one moment, which is the answer. Their manifests are left sealed.
    pub(super) async fn scan(
        &self,
        matching: Option<(&str, &str)>,
        mut show: impl FnMut(Seen<'_>),
    ) -> Result<Revision, Error> {
        let query = self.of(matching).limit(SCANNED).sealed();
        let mut page = self.store.list(query.clone()).await?;
        loop {
            for document in &page.documents {
                show(document.view()?);
            }
            match page.next {
                None => return Ok(page.revision),
                Some(next) => page = self.store.list(query.clone().from(next)).await?,
            }
        }
    }

    /// The ids of all bundles that an index has under a value, or of all there are, in order, and the moment they are of.
    pub(super) async fn ids(
        &self,
        matching: Option<(&str, &str)>,
    ) -> Result<(Vec<DocumentId>, Revision), Error> {
        self.store.ids(self.of(matching)).await
    }

    /// Shows so many of those bundles as they were at a moment, from behind one of them on, a few at a time, and the manifests of
    /// each as JSON.
    pub(super) async fn show(
        &self,
        matching: Option<(&str, &str)>,
        at: Revision,
        behind: Option<&DocumentId>,
        mut count: usize,
        mut show: impl FnMut(&Seen<'_>, Option<&str>),
    ) -> Result<(), Error> {
        // Most of a bundle are its manifests. They are opened by themselves, and never made part of it.
        let mut query = self.of(matching).at(at).sealed();
        if let Some(behind) = behind {
            query = query.from(Continue::behind(at, &self.partition, behind));
        }
        while count > 0 {
            let page = self.store.list(query.clone().limit(count.min(SCANNED))).await?;
            count -= page.documents.len().min(count);
            for document in &page.documents {
                let seen: Seen<'_> = document.view()?;
                let open = |sealed: &RawValue| self.store.unsealed_value(document, MANIFESTS, sealed.get());
                let manifests = seen.payload.data().map(open).transpose()?;
                show(&seen, manifests.as_deref());
            }
            match page.next {
                None => return Ok(()),
                Some(next) => query = query.from(next),
            }
        }
        Ok(())
    }

    fn of(&self, matching: Option<(&str, &str)>) -> Query {
        let query = Query::partition(&self.resources, &self.partition);
        match matching {
            Some((index, value)) => query.matching(index, value),
            None => query,
        }
    }

    /// How many bundles a consumer has.
    pub(super) async fn count_of_consumer(&self, consumer: &str) -> Result<usize, Error> {
        Ok(self.ids(Some(("consumer", consumer))).await?.0.len())
    }

    /// Ids of all bundles that have to be sent, with the consumers they are for.
    pub(super) async fn noted(&self) -> Result<Vec<(String, String)>, Error> {
        let query = Query::partition(&self.notes, &self.partition);
        self.each(query, |document| Ok((document.id.as_str().to_owned(), document.parse::<Note>()?.consumer)))
            .await
    }

    /// The replicas that are there.
    pub(super) async fn replica_names(&self) -> Result<BTreeSet<String>, Error> {
        let query = Query::partition(&self.replicas, &self.partition);
        let names = self.each(query, |document| Ok(document.id.as_str().to_owned())).await?;
        Ok(names.into_iter().collect())
    }

    /// What is read from all documents that a query finds.
    async fn each<T>(
        &self,
        query: Query,
        read: impl Fn(&Document) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut found = Vec::new();
        let mut next = None;
        loop {
            let query = query.clone();
            let page = self.store.list(match next {
                Some(next) => query.from(next),
                None => query,
            });
            let page = page.await?;
            for document in &page.documents {
                found.push(read(document)?);
            }
            next = page.next;
            if next.is_none() {
                return Ok(found);
            }
        }
    }

    /// Makes a consumer unless there is one of that name.
    pub(super) async fn ensure_consumer(&self, name: &str, now: Timestamp) -> Result<(), Error> {
        let record = ConsumerRecord {
            id: Uuid::new_v4().to_string(),
            name: name.to_owned(),
            labels: BTreeMap::new(),
            created_at: now,
            updated_at: now,
        };
        let id = DocumentId::try_new(name)?;
        match self.store.create(&self.consumers, &self.partition, id, &record).await {
            Err(Error::Conflict(Conflict::Exists { .. })) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Adds to a transaction what a change of a bundle's wanted state consists of: the bundle, and the note.
    pub(super) fn put_resource(
        &self,
        transaction: &mut Transaction,
        resource: &Resource,
        precondition: Precondition,
        action: NoteAction,
    ) -> Result<(), Error> {
        let id = DocumentId::try_new(&resource.id)?;
        transaction.put_written(&self.resources, id.clone(), precondition, resource)?;
        let note = Note { action, consumer: resource.consumer_name.clone() };
        transaction.put(&self.notes, id, Precondition::Any, &note)?;
        Ok(())
    }

    /// Writes a bundle whose wanted state is as it was.
    pub(super) async fn write(
        &self,
        resource: &Resource,
        precondition: Precondition,
    ) -> Result<Committed, Error> {
        let mut transaction = self.transaction();
        let id = DocumentId::try_new(&resource.id)?;
        transaction.put_written(&self.resources, id, precondition, resource)?;
        self.store.commit(&transaction).await
    }
}
