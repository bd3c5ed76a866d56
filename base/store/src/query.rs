//! Lists: which documents, in which order, from where on.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Container, Document, DocumentId, Error, Partition, Revision};

/// Which documents of one container to list, a page at a time, ordered by partition and id.
#[derive(Clone, Debug)]
pub struct Query {
    pub(crate) container: Container,
    pub(crate) partition: Option<Partition>,
    pub(crate) prefix: String,
    pub(crate) matching: Option<(String, String)>,
    pub(crate) limit: usize,
    pub(crate) at: Option<Revision>,
    pub(crate) from: Option<Continue>,
    pub(crate) sealed: bool,
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The documents, in order.
    pub documents: Vec<Document>,
    /// The state the whole list is of: that of its first page. Follow a feed from here.
    pub revision: Revision,
    /// Hand this to [`Query::from`] for the next page; none if this is the last.
    pub next: Option<Continue>,
}

/// Where a list goes on, and the revision it stays at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continue {
    #[serde(rename = "r")]
    pub(crate) revision: Revision,
    #[serde(rename = "p")]
    pub(crate) partition: Partition,
    #[serde(rename = "i")]
    pub(crate) id: DocumentId,
}

/// A query as an engine takes it.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) container: Arc<str>,
    pub(crate) partition: Option<Partition>,
    pub(crate) prefix: String,
    pub(crate) matching: Option<(Arc<str>, String)>,
    pub(crate) limit: usize,
    pub(crate) at: Option<Revision>,
    /// Only what comes behind this partition and id.
    pub(crate) behind: Option<(Partition, DocumentId)>,
}

impl Query {
    /// How many documents a page has unless told otherwise.
    pub const PAGE: usize = 500;

    /// Everything in a container, across all partitions.
    pub fn all(container: &Container) -> Self {
        Self {
            container: container.clone(),
            partition: None,
            prefix: String::new(),
            matching: None,
            limit: Self::PAGE,
            at: None,
            from: None,
            sealed: false,
        }
    }

    /// Everything in one partition of a container.
    pub fn partition(container: &Container, partition: &Partition) -> Self {
        Self { partition: Some(partition.clone()), ..Self::all(container) }
    }

    /// Only ids that start with this.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Only documents that `index` has under `value`.
    #[must_use]
    pub fn matching(mut self, index: &str, value: impl Into<String>) -> Self {
        self.matching = Some((index.to_owned(), value.into()));
        self
    }

    /// At most this many documents a page, and at least one.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit.clamp(1, 10_000);
        self
    }

    /// As it was at a revision that is still kept.
    #[must_use]
    pub fn at(mut self, revision: Revision) -> Self {
        self.at = Some(revision);
        self
    }

    /// With what is secret in them left sealed, where nobody looks at it: opening it costs more than all else. What is
    /// wanted after all is opened by [`Store::unsealed`](crate::Store::unsealed).
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.sealed = true;
        self
    }

    /// The page after the one that gave this, at the same revision.
    #[must_use]
    pub fn from(mut self, next: Continue) -> Self {
        self.from = Some(next);
        self
    }
}

impl Continue {
    /// Behind a document, which need not be there, in a list that is of this revision.
    pub fn behind(revision: Revision, partition: &Partition, id: &DocumentId) -> Self {
        Self { revision, partition: partition.clone(), id: id.clone() }
    }

    /// The mark as text a client can hand back.
    pub fn to_text(&self) -> Result<String, Error> {
        use base64::Engine as _;
        let json = serde_json::to_vec(self).map_err(|error| Self::refused(error.to_string()))?;
        Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json))
    }

    /// The mark a client handed back.
    pub fn try_from_text(text: &str) -> Result<Self, Error> {
        use base64::Engine as _;
        let json = base64::engine::general_purpose::URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|error| Self::refused(error.to_string()))?;
        serde_json::from_slice(&json).map_err(|error| Self::refused(error.to_string()))
    }

    /// The revision the list stays at.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    fn refused(problem: String) -> Error {
        Error::Invalid { what: "list continuation".to_owned(), problem }
    }
}
