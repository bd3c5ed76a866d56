//! What is written together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::lease::Fence;
use crate::{Container, DocumentId, Error, Etag, Lease, Partition, Revision};

/// What must hold of a document for a transaction to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// It does not exist.
    Absent,
    /// It is the version that was read.
    Etag(Etag),
    /// Whatever is there, or nothing.
    Any,
}

/// Writes to documents of one partition, in any of its containers: all of them or none, as one revision.
///
/// A document may be named once.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) partition: Partition,
    pub(crate) operations: Vec<Operation>,
    pub(crate) fences: Vec<Fence>,
}

#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) container: Container,
    pub(crate) id: DocumentId,
    pub(crate) precondition: Precondition,
    pub(crate) action: Action,
}

#[derive(Debug)]
pub(crate) enum Action {
    Put { body: Body, time_to_live: Option<Duration> },
    Delete,
    Check,
}

/// A document as it was handed in.
#[derive(Debug)]
pub(crate) enum Body {
    Value(Value),
    Text(Box<RawValue>),
}

/// What a transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The transaction's revision; the store's present one if it changed nothing.
    pub revision: Revision,
    /// One for every operation, in the order they were added.
    pub outcomes: Vec<Outcome>,
}

/// What one operation of a transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The document was written and has this etag.
    Written(Etag),
    /// The document was deleted.
    Deleted,
    /// There was nothing to delete, or only a precondition to check.
    Unchanged,
}

impl Operation {
    /// What is done to which kind of document: `put.clusters`, or `put.objects.pods` where ids begin with a kind. `None` if it
    /// only looks.
    fn kind(&self) -> Option<String> {
        let action = match self.action {
            Action::Put { .. } if self.precondition == Precondition::Absent => "create",
            Action::Put { .. } => "put",
            Action::Delete => "delete",
            Action::Check => return None,
        };
        let within =
            self.id.as_str().split_once('/').map(|(first, _)| first.split('.').next().unwrap_or(first));
        // Anything but letters is about which document, not which kind.
        let within =
            within.filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase()));
        let container = self.container.name();
        Some(within.map_or_else(
            || format!("{action}.{container}"),
            |within| format!("{action}.{container}.{within}"),
        ))
    }
}

impl Transaction {
    /// An empty transaction. Committing it does nothing.
    pub fn new(partition: Partition) -> Self {
        Self { partition, operations: Vec::new(), fences: Vec::new() }
    }

    /// What it does to which kinds of documents.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = String> {
        self.operations.iter().filter_map(Operation::kind)
    }

    /// Writes a document that must not exist yet.
    pub fn create(
        &mut self,
        container: &Container,
        id: DocumentId,
        body: &impl Serialize,
    ) -> Result<&mut Self, Error> {
        self.put(container, id, Precondition::Absent, body)
    }

    /// Writes a document, new or in place of another. It has no expiry, whatever the former one had.
    pub fn put(
        &mut self,
        container: &Container,
        id: DocumentId,
        precondition: Precondition,
        body: &impl Serialize,
    ) -> Result<&mut Self, Error> {
        self.write(container, id, precondition, body, None)
    }

    /// Writes a document that is deleted by itself after `time_to_live`, unless it is written again.
    pub fn put_expiring(
        &mut self,
        container: &Container,
        id: DocumentId,
        precondition: Precondition,
        body: &impl Serialize,
        time_to_live: Duration,
    ) -> Result<&mut Self, Error> {
        self.write(container, id, precondition, body, Some(time_to_live))
    }

    /// As [`put`](Self::put), as the document writes itself, without putting it together as a value first: for large ones,
    /// of types that write no name twice.
    pub fn put_written(
        &mut self,
        container: &Container,
        id: DocumentId,
        precondition: Precondition,
        body: &impl Serialize,
    ) -> Result<&mut Self, Error> {
        let body =
            serde_json::value::to_raw_value(body).map_err(|error| unwritable(container, &id, &error))?;
        Ok(self.put_text(container, id, precondition, body, None))
    }

    /// Writes a document that is text already. It is kept as it is, unless something in it is sealed.
    pub fn put_text(
        &mut self,
        container: &Container,
        id: DocumentId,
        precondition: Precondition,
        body: Box<RawValue>,
        time_to_live: Option<Duration>,
    ) -> &mut Self {
        self.add(container, id, precondition, Action::Put { body: Body::Text(body), time_to_live })
    }

    /// Deletes a document. With [`Precondition::Any`] a missing one is left missing, which the outcome says.
    pub fn delete(&mut self, container: &Container, id: DocumentId, precondition: Precondition) -> &mut Self {
        self.add(container, id, precondition, Action::Delete)
    }

    /// Carries out the rest only if `precondition` holds of a document that stays as it is.
    pub fn check(&mut self, container: &Container, id: DocumentId, precondition: Precondition) -> &mut Self {
        self.add(container, id, precondition, Action::Check)
    }

    /// Carries out the transaction only while the lease is held with this token: what a holder that was
    /// paused writes after its lease passed on is refused.
    pub fn fenced_by(&mut self, lease: &Lease) -> &mut Self {
        self.fences.push(lease.fence());
        self
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty() && self.fences.is_empty()
    }

    fn write(
        &mut self,
        container: &Container,
        id: DocumentId,
        precondition: Precondition,
        body: &impl Serialize,
        time_to_live: Option<Duration>,
    ) -> Result<&mut Self, Error> {
        let body = serde_json::to_value(body).map_err(|error| unwritable(container, &id, &error))?;
        Ok(self.add(container, id, precondition, Action::Put { body: Body::Value(body), time_to_live }))
    }

    fn add(
        &mut self,
        container: &Container,
        id: DocumentId,
        precondition: Precondition,
        action: Action,
    ) -> &mut Self {
        self.operations.push(Operation { container: container.clone(), id, precondition, action });
        self
    }
}

impl Committed {
    /// The etag of a transaction's only, or first, written document.
    pub fn etag(&self) -> Option<&Etag> {
        self.outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Written(etag) => Some(etag),
            Outcome::Deleted | Outcome::Unchanged => None,
        })
    }
}

fn unwritable(container: &Container, id: &DocumentId, error: &serde_json::Error) -> Error {
    Error::Invalid { what: format!("document `{id}` in `{}`", container.name()), problem: error.to_string() }
}

/// A document's place in a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) container: Arc<str>,
    pub(crate) partition: Partition,
    pub(crate) id: DocumentId,
}

/// Partition and id are quoted, so that no two keys look alike.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:?}/{:?}", self.container, self.partition.as_str(), self.id.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_says_what_it_does_to_which_kinds_of_documents() {
        let (objects, clusters) = (Container::new("objects"), Container::new("clusters"));
        let id = |text: &str| DocumentId::try_new(text).unwrap();
        let mut transaction = Transaction::new(Partition::try_new("here").unwrap());
        transaction.create(&objects, id("deployments.apps/default/web"), &()).unwrap();
        transaction.put(&clusters, id("/subscriptions/1/one"), Precondition::Any, &()).unwrap();
        transaction.check(&objects, id("namespaces//default"), Precondition::Any);
        transaction.delete(&clusters, id("c0ffee/one"), Precondition::Any);
        let kinds: Vec<_> = transaction.kinds().collect();
        assert_eq!(kinds, ["create.objects.deployments", "put.clusters", "delete.clusters"]);
    }
}
