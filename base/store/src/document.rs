//! A document as it is read.

use std::sync::Arc;

use jiff::Timestamp;
use serde::de::{Deserialize, DeserializeOwned};

use crate::{DocumentId, Error, Etag, Partition, Revision};

/// One version of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The container's name.
    pub container: Arc<str>,
    /// The partition.
    pub partition: Partition,
    /// The id within container and partition.
    pub id: DocumentId,
    /// Changes with every write.
    pub etag: Etag,
    /// The transaction that wrote it.
    pub revision: Revision,
    /// When it will be deleted, by the database's clock, if nobody writes it again.
    pub expires_at: Option<Timestamp>,
    pub(crate) body: Arc<str>,
}

impl Document {
    /// The document as JSON text, secrets opened.
    pub fn text(&self) -> &str {
        &self.body
    }

    /// The document as a value of its type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        self.view()
    }

    /// The same, of a type that refers to the document's text instead of copying it.
    pub fn view<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        if let Ok(value) = serde_json::from_str(&self.body) {
            return Ok(value);
        }
        // Again, for where it is wrong: keeping track of that costs as much as the reading itself.
        let mut deserializer = serde_json::Deserializer::from_str(&self.body);
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| Error::Form {
            container: self.container.to_string(),
            id: self.id.clone(),
            path: error.path().to_string(),
            source: error.into_inner(),
        })
    }
}
