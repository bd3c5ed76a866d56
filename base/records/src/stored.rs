use std::ops::{Deref, DerefMut};

use pilothouse_store::{Document, Error, Etag};
use serde::de::DeserializeOwned;

/// A record as it was read: replacing it is refused if it has changed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored<T> {
    /// The record, to be changed at will before it is written back.
    pub record: T,
    pub(crate) etag: Etag,
}

impl<T: DeserializeOwned> Stored<T> {
    pub(crate) fn of(document: &Document) -> Result<Self, Error> {
        Ok(Self { record: document.parse()?, etag: document.etag.clone() })
    }
}

impl<T> Stored<T> {
    /// Names this version of the record and no other; fit for an `ETag` header once it is quoted.
    pub fn etag(&self) -> &str {
        self.etag.as_str()
    }
}

impl<T> Deref for Stored<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.record
    }
}

impl<T> DerefMut for Stored<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.record
    }
}
