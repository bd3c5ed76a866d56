//! Points in a store's history, and the marks that documents and readers carry of them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Error;

/// One committed transaction: every later commit has a higher one, in every partition.
///
/// One counter serves the whole store, so within a partition revisions increase strictly, in commit order,
/// but are not consecutive. Zero is the state before the first commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(u64);

/// Changes whenever its document does, and never comes back, not even after a backup was restored: it names
/// the revision and the opening of the store that wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Etag(Arc<str>);

/// Where a reader of a container's feed stands. Opaque: keep it, hand it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(String);

impl Revision {
    /// Before the first commit.
    pub const ZERO: Self = Self(0);

    /// The revision with this number, as a client handed it back.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The number, for clients that carry it as one.
    pub const fn number(self) -> u64 {
        self.0
    }

    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Engines keep signed 64-bit integers; a revision counts commits, so it never leaves their range. A
    /// number a client made up may, and then simply lies beyond every commit.
    pub(crate) fn to_sql(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    pub(crate) fn from_sql(number: i64) -> Self {
        Self(u64::try_from(number).unwrap_or_default())
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Etag {
    pub(crate) fn new(revision: Revision, incarnation: u32) -> Self {
        Self(format!("{:x}-{incarnation:08x}", revision.0).into())
    }

    /// The mark as a client handed it back.
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// The mark as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Cursor {
    pub(crate) fn new(after: Revision) -> Self {
        Self(format!("r{:x}", after.0))
    }

    /// The cursor as text, to be kept.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The cursor that was kept as `text`.
    pub fn try_from_text(text: &str) -> Result<Self, Error> {
        let cursor = Self(text.to_owned());
        cursor.after().map(|_| cursor)
    }

    pub(crate) fn after(&self) -> Result<Revision, Error> {
        self.0
            .strip_prefix('r')
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .map(Revision)
            .ok_or_else(|| Error::Invalid {
                what: format!("feed cursor {:?}", self.0),
                problem: "it was not made by this store".to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_survive_being_kept_as_text_and_foreign_text_is_refused() {
        let cursor = Cursor::new(Revision(0xabc));
        assert_eq!(Cursor::try_from_text(cursor.as_str()).unwrap().after().unwrap(), Revision(0xabc));
        for text in ["", "r", "abc", "rxyz", "r-1"] {
            assert!(Cursor::try_from_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn one_revision_written_by_two_openings_has_two_etags() {
        assert_ne!(Etag::new(Revision(7), 1), Etag::new(Revision(7), 2));
    }
}
