//! What is stored.
//!
//! Everything is in one partition, so that a bundle and the note that it has to be sent are one transaction. Payloads
//! contain Kubernetes secrets; they are sealed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pilothouse_store::{
    Catalog, Conflict, Container, Document, DocumentId, Error, Partition, Precondition, Query, Store,
    Transaction,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// The label by which everything of one cluster is found.
pub(super) const CLUSTER_LABEL: &str = "api.openshift.com/id";

/// A bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Resource {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) source: String,
    pub(super) consumer_name: String,
    pub(super) version: i32,
    /// A copy of the label, for the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<String>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deleted_at: Option<Timestamp>,
    /// The source's event.
    pub(super) payload: Value,
    /// The agent's last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<Value>,
}

/// A note that a bundle has to be sent. It has the bundle's id: what is sent is the bundle as it is then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) action: NoteAction,
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
}

/// What the server's store must be opened with. It has secrets, so the store needs a keyring.
pub fn catalog() -> Catalog {
    // The names are valid, and there is nothing else that could be wrong.
    Catalog::try_new([consumers(), resources(), notes()]).unwrap_or_default()
}

fn consumers() -> Container {
    Container::new("consumers").with_index("id", "/id")
}

fn resources() -> Container {
    Container::new("resources")
        .with_index("consumer", "/consumer_name")
        .with_index("source", "/source")
        .with_index("cluster", "/cluster")
        .with_secret("/payload/data")
}

fn notes() -> Container {
    Container::new("notes")
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

    /// All documents of a container that an index has under a value; all there are without one.
    pub(super) async fn all<T: DeserializeOwned>(
        &self,
        container: &Container,
        matching: Option<(&str, &str)>,
    ) -> Result<Vec<T>, Error> {
        let mut found = Vec::new();
        let mut next = None;
        loop {
            let mut query = Query::partition(container, &self.partition);
            if let Some((index, value)) = matching {
                query = query.matching(index, value);
            }
            if let Some(next) = next {
                query = query.from(next);
            }
            let page = self.store.list(query).await?;
            for document in page.documents {
                found.push(document.parse()?);
            }
            next = page.next;
            if next.is_none() {
                return Ok(found);
            }
        }
    }

    pub(super) async fn of_consumer(&self, consumer: &str) -> Result<Vec<Resource>, Error> {
        self.all(&self.resources, Some(("consumer", consumer))).await
    }

    /// Ids of all bundles that have to be sent.
    pub(super) async fn noted(&self) -> Result<Vec<String>, Error> {
        let mut ids = Vec::new();
        let mut next = None;
        loop {
            let mut query = Query::partition(&self.notes, &self.partition);
            if let Some(next) = next {
                query = query.from(next);
            }
            let page = self.store.list(query).await?;
            ids.extend(page.documents.iter().map(|document| document.id.as_str().to_owned()));
            next = page.next;
            if next.is_none() {
                return Ok(ids);
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
        transaction.put(&self.resources, id.clone(), precondition, resource)?;
        transaction.put(&self.notes, id, Precondition::Any, &Note { action })?;
        Ok(())
    }
}
