//! What writers write: a pure function of a seed, so that whoever looks at a store afterwards can say of every
//! transaction what exactly it must contain, also of one that was never acknowledged.
//!
//! Each writer has documents of its own and numbers its transactions 1, 2, 3, …. Every transaction writes the
//! writer's `latest` document, whose number says which one it was, and some others in other containers: new,
//! replaced, deleted. Two writers share a partition.

use std::collections::BTreeMap;

use pilothouse_store::{Container, DocumentId, Partition};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::fixture::{ada, bob, id, notes, tokens, vault};

pub(super) const WRITERS: usize = 4;
pub(super) const COLOURS: [&str; 3] = ["red", "green", "blue"];

/// A container's name and a document's id.
pub(super) type Place = (&'static str, String);

/// One writer's documents after some number of its transactions.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    seed: u64,
    writer: usize,
    number: u64,
    documents: BTreeMap<Place, Value>,
}

/// One transaction: what each document it names is to become.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) number: u64,
    pub(super) operations: BTreeMap<Place, Option<Value>>,
}

pub(super) fn container(name: &str) -> Container {
    [notes(), tokens(), vault()].into_iter().find(|container| container.name() == name).unwrap()
}

pub(super) fn partition(writer: usize) -> Partition {
    if writer.is_multiple_of(2) { ada() } else { bob() }
}

/// Which writer a document belongs to.
pub(super) fn owner(id: &DocumentId) -> Option<usize> {
    id.as_str().strip_prefix("writer-")?.split('/').next()?.parse().ok()
}

/// The document that every transaction of a writer writes.
pub(super) fn latest(writer: usize) -> Place {
    (Kind::Token.container(), format!("writer-{writer}/latest"))
}

#[derive(Clone, Copy)]
enum Kind {
    Note,
    Token,
    Vault,
}

impl Writer {
    /// Before its first transaction.
    pub(super) fn new(seed: u64, writer: usize) -> Self {
        Self { seed, writer, number: 0, documents: BTreeMap::new() }
    }

    /// After a number of transactions.
    pub(super) fn after(seed: u64, writer: usize, number: u64) -> Self {
        let mut state = Self::new(seed, writer);
        for _ in 0..number {
            state.apply(&state.next());
        }
        state
    }

    /// How many transactions lie behind it.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn exists(&self, place: &Place) -> bool {
        self.documents.contains_key(place)
    }

    /// The transaction that comes now.
    pub(super) fn next(&self) -> Step {
        let number = self.number + 1;
        // Any mix of the three will do, as long as no two transactions have the same.
        let mixed = self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((self.writer as u64 + 1) << 56);
        let mut random = StdRng::seed_from_u64(mixed);
        let mut operations = BTreeMap::new();
        operations.insert(latest(self.writer), Some(Kind::Token.body(self.writer, number, &mut random)));
        for _ in 0..random.random_range(0..4) {
            let kind = *[Kind::Note, Kind::Note, Kind::Token, Kind::Vault].choose(&mut random).unwrap();
            let place = (kind.container(), format!("writer-{}/{}", self.writer, random.random_range(0..6)));
            let delete = self.exists(&place) && random.random_bool(0.3);
            let body = (!delete).then(|| kind.body(self.writer, number, &mut random));
            operations.insert(place, body);
        }
        Step { number, operations }
    }

    pub(super) fn apply(&mut self, step: &Step) {
        self.number = step.number;
        for (place, body) in &step.operations {
            match body {
                Some(body) => self.documents.insert(place.clone(), body.clone()),
                None => self.documents.remove(place),
            };
        }
    }
}

impl Kind {
    fn container(self) -> &'static str {
        match self {
            Self::Note => "notes",
            Self::Token => "tokens",
            Self::Vault => "vault",
        }
    }

    /// Long enough now and then for several pages, so that the log is folded back within a round.
    fn body(self, writer: usize, number: u64, random: &mut StdRng) -> Value {
        let length = if random.random_bool(0.2) {
            random.random_range(0..12_000)
        } else {
            random.random_range(0..400)
        };
        let text: String = (0..length).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect();
        match self {
            Self::Note => json!({"colour": COLOURS.choose(random), "number": number, "text": text}),
            Self::Token => json!({"owner": writer, "number": number, "data": {"text": text}}),
            Self::Vault => json!({"number": number, "text": text}),
        }
    }
}

/// The id of a place.
pub(super) fn document_id(place: &Place) -> DocumentId {
    id(&place.1)
}
