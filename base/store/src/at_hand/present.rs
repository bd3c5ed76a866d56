//! Documents at hand: what was read lately is not asked of the database again.
//!
//! Only for an engine whose every writer is in this process. It says what it is about to change before the change can be
//! seen, and when it is over ([`Present::changing`]); in between, nothing of what it touches is at hand, and what was read
//! meanwhile is not kept. So whoever reads here never sees less than somebody saw before in the database itself, and a commit
//! that was answered is seen by all. A document that was at hand before a change is so after it: whoever changes one had read it,
//! and will again.
//!
//! What is kept is what is stored, sealed secrets included, and at most [`CAPACITY`] bytes of it: two generations, of which
//! the older one is dropped as a whole when the younger one is full.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::Version;
use crate::transaction::Key;

/// So much text in all.
const CAPACITY: usize = 16 << 20;
/// Parts with a lock each, so that readers rarely meet each other.
const PARTS: usize = 64;
/// So much in one generation of one part. A document that is larger is not kept.
const GENERATION: usize = CAPACITY / PARTS / 2;
/// What a document takes beside its body, about.
const OVERHEAD: usize = 256;

#[derive(Debug)]
pub(crate) struct Present {
    hasher: RandomState,
    parts: [Mutex<Part>; PARTS],
}

#[derive(Debug, Default)]
struct Part {
    young: HashMap<Key, Version>,
    old: HashMap<Key, Version>,
    /// Taken by those in `young`.
    bytes: usize,
    /// Grows with every change.
    changes: u64,
    is_changing: bool,
}

/// Says that its holder had looked before asking the database; see [`Present::keep`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

/// As long as it lives, nothing of what is being changed is at hand.
#[derive(Debug)]
#[must_use]
pub(crate) struct Changing {
    present: Arc<Present>,
    parts: Vec<usize>,
    /// What was at hand of it before.
    former: HashMap<Key, Version>,
}

impl Present {
    pub(crate) fn new() -> Arc<Self> {
        let parts = std::array::from_fn(|_| Mutex::default());
        Arc::new(Self { hasher: RandomState::new(), parts })
    }

    /// A document, if it is at hand; otherwise what it takes to keep it once it was read, if that can be done at all.
    pub(crate) fn find(&self, key: &Key) -> Result<Version, Option<Ticket>> {
        let mut part = self.part(self.part_of(key));
        if let Some(version) = part.young.get(key) {
            return Ok(version.clone());
        }
        if let Some(version) = part.old.remove(key) {
            part.insert(version.clone());
            return Ok(version);
        }
        Err((!part.is_changing).then_some(Ticket(part.changes)))
    }

    /// Keeps what was read after [`Present::find`] had not found it, unless something was changed since then.
    pub(crate) fn keep(&self, ticket: Ticket, version: &Version) {
        let mut part = self.part(self.part_of(&version.key));
        if ticket.0 == part.changes && !part.is_changing {
            part.insert(version.clone());
        }
    }

    /// Some documents are about to change.
    pub(crate) fn changing<'a>(self: &Arc<Self>, keys: impl IntoIterator<Item = &'a Key>) -> Changing {
        let (mut parts, mut former) = (Vec::new(), HashMap::new());
        for key in keys {
            let number = self.part_of(key);
            let mut part = self.part(number);
            if !part.is_changing {
                part.begin();
                parts.push(number);
            }
            if let Some(version) = part.remove(key) {
                former.insert(key.clone(), version);
            }
        }
        Changing { present: self.clone(), parts, former }
    }

    /// Any document is about to change.
    pub(crate) fn changing_all(self: &Arc<Self>) -> Changing {
        for number in 0..PARTS {
            let mut part = self.part(number);
            part.begin();
            (part.young, part.old, part.bytes) = Default::default();
        }
        Changing { present: self.clone(), parts: (0..PARTS).collect(), former: HashMap::new() }
    }

    fn part_of(&self, key: &Key) -> usize {
        // Modulo a small number: it fits.
        usize::try_from(self.hasher.hash_one(key) % PARTS as u64).unwrap_or_default()
    }

    fn part(&self, number: usize) -> MutexGuard<'_, Part> {
        // Nothing in here can panic half-way, so a poisoned lock still guards a sound part.
        self.parts[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    fn begin(&mut self) {
        self.changes += 1;
        self.is_changing = true;
    }

    fn insert(&mut self, version: Version) {
        let size = size(&version);
        if size > GENERATION {
            return;
        }
        if self.bytes + size > GENERATION {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        let former = self.young.insert(version.key.clone(), version);
        self.bytes = self.bytes + size - former.as_ref().map_or(0, self::size);
    }

    fn remove(&mut self, key: &Key) -> Option<Version> {
        let old = self.old.remove(key);
        let young = self.young.remove(key);
        self.bytes -= young.as_ref().map_or(0, size);
        young.or(old)
    }
}

fn size(version: &Version) -> usize {
    let key = version.key.partition.as_str().len() + version.key.id.as_str().len();
    OVERHEAD + 2 * key + version.body.len()
}

impl Changing {
    /// A document as it was before, if it was at hand.
    pub(super) fn former(&self, key: &Key) -> Option<&Version> {
        self.former.get(key)
    }

    /// What the documents have become, in order, and durably.
    pub(super) fn replace(&self, versions: impl IntoIterator<Item = Version>) {
        for version in versions.into_iter().filter(|version| self.former.contains_key(&version.key)) {
            self.present.part(self.present.part_of(&version.key)).insert(version);
        }
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        for number in &self.parts {
            self.present.part(*number).is_changing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DocumentId, Etag, Partition, Revision};

    fn key(id: usize) -> Key {
        Key {
            container: "clusters".into(),
            partition: Partition::try_new("one").unwrap(),
            id: DocumentId::try_new(format!("id{id}")).unwrap(),
        }
    }

    fn version(id: usize, body: &str) -> Version {
        Version {
            key: key(id),
            revision: Revision::ZERO,
            etag: Etag::new(Revision::ZERO, 0),
            body: body.into(),
            expires_at: None,
        }
    }

    fn ticket(present: &Present, id: usize) -> Ticket {
        present.find(&key(id)).unwrap_err().unwrap()
    }

    #[test]
    fn what_was_read_is_at_hand_until_it_changes() {
        let present = Present::new();
        present.keep(ticket(&present, 1), &version(1, "first"));
        assert_eq!(&*present.find(&key(1)).unwrap().body, "first");
        let changing = present.changing([&key(1)]);
        assert!(matches!(present.find(&key(1)), Err(None)), "a change is under way");
        drop(changing);
        present.keep(ticket(&present, 1), &version(1, "second"));
        assert_eq!(&*present.find(&key(1)).unwrap().body, "second");
        drop(present.changing_all());
        assert!(present.find(&key(1)).is_err());
    }

    #[test]
    fn what_was_read_before_or_during_a_change_is_not_kept() {
        let present = Present::new();
        let before = ticket(&present, 1);
        let changing = present.changing([&key(1)]);
        present.keep(before, &version(1, "old"));
        drop(changing);
        assert!(present.find(&key(1)).is_err());
        present.keep(before, &version(1, "old"));
        assert!(present.find(&key(1)).is_err());
        let before = ticket(&present, 1);
        drop(present.changing_all());
        present.keep(before, &version(1, "old"));
        assert!(present.find(&key(1)).is_err());
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for_and_what_is_asked_for_stays() {
        let present = Present::new();
        let body = "x".repeat(1000);
        present.keep(ticket(&present, 0), &version(0, "wanted"));
        for id in 1..40_000 {
            present.keep(ticket(&present, id), &version(id, &body));
            present.find(&key(0)).unwrap();
        }
        let kept: usize = (0..PARTS)
            .map(|number| {
                let part = present.part(number);
                assert_eq!(part.bytes, part.young.values().map(size).sum::<usize>());
                part.young.values().chain(part.old.values()).map(size).sum::<usize>()
            })
            .sum();
        assert!((CAPACITY / 3..=CAPACITY).contains(&kept), "{kept}");
        let large = "x".repeat(GENERATION);
        present.keep(ticket(&present, 50_000), &version(50_000, &large));
        assert!(present.find(&key(50_000)).is_err());
    }
}
