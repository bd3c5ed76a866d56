//! What is written: documents of about 1 KiB.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pilothouse_store::{Catalog, Container, DocumentId, Partition};
use serde::Serialize;

/// About 1 KiB as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    number: usize,
    colour: &'static str,
    data: &'static str,
}

/// Ids that never come twice, in one of two orders. What an engine has to touch depends on it: ids in order go to
/// the end of an index, ids at random all over it.
#[derive(Debug)]
pub(super) enum Ids {
    /// As ids made from the time are.
    InOrder(AtomicU64),
    /// As names are, or ids made from random bits.
    AtRandom(AtomicU64),
}

/// The one colour of all documents: an index over it has them all in one value.
pub(super) const COLOUR: &str = "blue";
/// The index over it.
pub(super) const BY_COLOUR: &str = "colour";

/// With its name, number and colour, a document comes to 1 KiB.
const DATA: usize = 980;

impl Document {
    pub(super) fn new(number: usize) -> Self {
        Self { number, colour: COLOUR, data: filler(number) }
    }
}

/// Text of the size of a document's data that is no single repeated letter, which some layer might shorten.
pub(super) fn filler(seed: usize) -> &'static str {
    const LETTERS: usize = 23;
    static TEXT: LazyLock<String> =
        LazyLock::new(|| ('a'..).take(LETTERS).cycle().take(DATA + LETTERS).collect());
    let start = seed % LETTERS;
    &TEXT[start..start + DATA]
}

impl Ids {
    pub(super) fn in_order() -> Self {
        Self::InOrder(AtomicU64::new(0))
    }

    pub(super) fn at_random() -> Self {
        Self::AtRandom(AtomicU64::new(0))
    }

    pub(super) fn next(&self) -> anyhow::Result<DocumentId> {
        let number = match self {
            Self::InOrder(next) => next.fetch_add(1, Ordering::Relaxed),
            // Multiplying by an odd number takes every number to another one, and neighbours far apart.
            Self::AtRandom(next) => next.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        id(format!("{number:016x}"))
    }
}

/// Documents without an index.
pub(super) fn plain() -> Container {
    Container::new("plain")
}

/// Documents with one.
pub(super) fn indexed() -> Container {
    Container::new("indexed").with_index(BY_COLOUR, "/colour")
}

pub(super) fn catalog() -> anyhow::Result<Catalog> {
    Ok(Catalog::try_new([plain(), indexed()])?)
}

pub(super) fn partition(name: &str) -> anyhow::Result<Partition> {
    Ok(Partition::try_new(name)?)
}

pub(super) fn id(text: impl AsRef<str>) -> anyhow::Result<DocumentId> {
    Ok(DocumentId::try_new(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_of_one_kibibyte() {
        for number in [0, 99_999] {
            let size = serde_json::to_string(&Document::new(number)).unwrap().len();
            assert!((1000..=1048).contains(&size), "{size}");
        }
    }
}
