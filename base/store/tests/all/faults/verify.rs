//! Whether a store that was reopened after a fault has everything that was acknowledged, nothing that nobody
//! wrote, and no half of anything.
//!
//! A writer has one transaction under way at a time, so after its death the store has, of each writer, all
//! transactions up to the last acknowledged one, and perhaps the one after. Which documents that makes is
//! recomputed, see `workload`, and compared in full: with the feeds, the lists, the indexes and single reads.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context as _, Result, ensure};
use pilothouse_store::{Change, Document, DocumentId, Feed, Partition, Query, Revision, Store};
use serde_json::Value;

use super::workload::{COLOURS, Place, WRITERS, Writer, container, latest, owner, partition};
use super::writer::Acknowledgement;
use crate::fixture::{ada, all_pages, bob, notes, tokens, vault};

/// What is known of a store while nobody looks into it.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    pub(super) seed: u64,
    /// The last transaction of each writer that must be there.
    pub(super) last: [u64; WRITERS],
    revisions: HashMap<(usize, u64), u64>,
}

type Key = (String, Partition, DocumentId);

impl Ledger {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, last: [0; WRITERS], revisions: HashMap::new() }
    }

    pub(super) fn acknowledge(&mut self, acknowledged: &[Acknowledgement]) {
        for Acknowledgement { writer, number, revision } in acknowledged {
            assert_eq!(*number, self.last[*writer] + 1, "writer {writer} acknowledges in order");
            self.last[*writer] = *number;
            self.revisions.insert((*writer, *number), *revision);
        }
    }

    /// Looks at everything, and takes up what was there without having been acknowledged.
    pub(super) async fn verify(&mut self, store: &Store) -> Result<()> {
        let acknowledged = self.last;
        self.verify_at_least(store, acknowledged).await?;
        for writer in 0..WRITERS {
            let (acknowledged, found) = (acknowledged[writer], self.last[writer]);
            ensure!(
                found <= acknowledged + 1,
                "writer {writer}: {found} found, after {acknowledged} only one more was begun"
            );
        }
        Ok(())
    }

    /// The same, of a store that others went on writing to.
    pub(super) async fn verify_at_least(
        &mut self,
        store: &Store,
        acknowledged: [u64; WRITERS],
    ) -> Result<()> {
        let report = store.check().await?;
        ensure!(report.problems.is_empty(), "the store does not fit together: {:?}", report.problems);
        let revision = store.revision().await?;
        let changes = self.feeds(store, revision).await?;
        let present = follow(&changes)?;
        let last = self.transactions(&changes, revision)?;
        for writer in 0..WRITERS {
            let (acknowledged, found) = (acknowledged[writer], last[writer]);
            ensure!(found >= acknowledged, "writer {writer}: {acknowledged} acknowledged, {found} found");
        }
        ensure!(
            report.documents == present.len() as u64,
            "{} documents counted of {}",
            report.documents,
            present.len()
        );
        lists(store, &present).await?;
        self.last = last;
        Ok(())
    }

    /// Both feeds of everything, from the beginning; they must tell the same.
    async fn feeds(&self, store: &Store, newest: Revision) -> Result<Vec<Change>> {
        let mut by_partition = Vec::new();
        for partition in [ada(), bob()] {
            by_partition.extend(read(store.partition_feed(&partition, Revision::ZERO), newest).await?);
        }
        let mut by_container = Vec::new();
        for container in [notes(), tokens(), vault()] {
            by_container.extend(read(store.container_feed(&container, Revision::ZERO)?, newest).await?);
        }
        let order =
            |change: &Change| (change.revision, change.container.clone(), change.id.as_str().to_owned());
        by_partition.sort_by_key(order);
        by_container.sort_by_key(order);
        ensure!(by_partition == by_container, "the feeds of partitions and of containers differ");
        Ok(by_partition)
    }

    /// Cuts the feed into transactions, and compares each with what its writer meant to write.
    fn transactions(&self, changes: &[Change], newest: Revision) -> Result<[u64; WRITERS]> {
        let mut writers: Vec<Writer> = (0..WRITERS).map(|writer| Writer::new(self.seed, writer)).collect();
        let mut revision = 0;
        for transaction in changes.chunk_by(|a, b| a.revision == b.revision) {
            revision += 1;
            let found = transaction[0].revision.number();
            ensure!(found == revision, "revision {revision} is missing, the next is {found}");
            let writer = owner(&transaction[0].id).context("a document of nobody")?;
            let state = &mut writers[writer];
            let expected = state.next();
            let written: BTreeMap<Place, Option<Value>> = transaction
                .iter()
                .map(|change| {
                    ensure!(
                        change.partition == partition(writer),
                        "{} is in {}",
                        change.id,
                        change.partition
                    );
                    let place = (name(&change.container)?, change.id.as_str().to_owned());
                    Ok((place, change.after.as_ref().map(Document::parse).transpose()?))
                })
                .collect::<Result<_>>()?;
            ensure!(written.len() == transaction.len(), "revision {revision} changes a document twice");
            ensure!(written.contains_key(&latest(writer)), "revision {revision} is half a transaction");
            ensure!(
                written == expected.operations,
                "revision {revision} is not transaction {} of writer {writer}: {written:?}, meant was {:?}",
                expected.number,
                expected.operations
            );
            if let Some(acknowledged) = self.revisions.get(&(writer, expected.number)) {
                ensure!(
                    *acknowledged == revision,
                    "{acknowledged} was acknowledged for what is revision {revision}"
                );
            }
            state.apply(&expected);
        }
        ensure!(revision == newest.number(), "the store is at {newest}, its feed ends with {revision}");
        Ok(std::array::from_fn(|writer| writers[writer].number()))
    }
}

/// A feed to its end.
async fn read(mut feed: Feed, newest: Revision) -> Result<Vec<Change>> {
    let mut changes: Vec<Change> = Vec::new();
    loop {
        let batch = feed.ready().await?;
        if batch.changes.is_empty() {
            ensure!(batch.through == newest, "a feed ends at {} of {newest}", batch.through);
            return Ok(changes);
        }
        let before = changes.last().map_or(Revision::ZERO, |change| change.revision);
        ensure!(batch.changes[0].revision > before, "a transaction was cut in two at {before}");
        ensure!(
            batch.changes.is_sorted_by_key(|change| change.revision),
            "a feed runs backwards after {before}"
        );
        changes.extend(batch.changes);
    }
}

/// Applies a feed; every change must start from what the one before left.
fn follow(changes: &[Change]) -> Result<BTreeMap<Key, Document>> {
    let mut present: BTreeMap<Key, Document> = BTreeMap::new();
    for change in changes {
        let key = (change.container.to_string(), change.partition.clone(), change.id.clone());
        ensure!(
            present.get(&key) == change.before.as_ref(),
            "{key:?} at {}: before is {:?}, the feed had left {:?}",
            change.revision,
            change.before,
            present.get(&key)
        );
        match &change.after {
            Some(document) => present.insert(key, document.clone()),
            None => present.remove(&key),
        };
    }
    Ok(present)
}

/// Lists, index lookups and single reads against what the feed has led to.
async fn lists(store: &Store, present: &BTreeMap<Key, Document>) -> Result<()> {
    let of = |name: &str| {
        present.values().filter(|document| *document.container == *name).cloned().collect::<Vec<_>>()
    };
    for container in [notes(), tokens(), vault()] {
        let listed = documents(store, Query::all(&container)).await;
        ensure!(
            listed == of(container.name()),
            "the list of {} is not what its feed led to",
            container.name()
        );
    }
    for colour in COLOURS {
        let listed = documents(store, Query::all(&notes()).matching("colour", colour)).await;
        let mut expected = of("notes");
        expected.retain(|document| document.text().contains(&format!(r#""colour":"{colour}""#)));
        ensure!(listed == expected, "the index does not find what is {colour}");
    }
    for ((name, partition, id), document) in present {
        let found = store.get(&container(name), partition, id).await?;
        ensure!(found.as_ref() == Some(document), "{name}/{id} reads as {found:?}, and not as {document:?}");
    }
    Ok(())
}

async fn documents(store: &Store, query: Query) -> Vec<Document> {
    all_pages(store, query, 100).await.into_iter().flat_map(|page| page.documents).collect()
}

fn name(container: &str) -> Result<&'static str> {
    ["notes", "tokens", "vault"].into_iter().find(|name| *name == container).context("an unknown container")
}
