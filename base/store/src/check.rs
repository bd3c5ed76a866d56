//! Going through a whole store to see whether it fits together.
//!
//! Works beside a process that writes: what changed after the check began is left out.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Serialize;

use crate::container::{Entry, Prepared};
use crate::engine::{Head, Position, Scanned, State};
use crate::outline::Outline;
use crate::store::Inner;
use crate::transaction::Key;
use crate::{Error, Revision, seal};

/// What a check saw.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The newest revision.
    pub revision: Revision,
    /// The oldest revision that can be read.
    pub oldest: Revision,
    /// Documents by container.
    pub containers: BTreeMap<String, u64>,
    /// All documents that exist.
    pub documents: u64,
    /// All versions that are kept, tombstones included.
    pub versions: u64,
    /// Versions with something sealed, by the key's id.
    pub sealed: BTreeMap<String, u64>,
    /// Whether secrets were opened to see if they can be.
    pub secrets_opened: bool,
    /// What does not fit; empty if the store is sound.
    pub problems: Vec<Problem>,
}

/// Something that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Where.
    pub place: String,
    /// What.
    pub finding: String,
}

/// The newest version of a document, as the scan of versions tells.
struct Last {
    position: Position,
    revision: Revision,
    live: bool,
    entries: Option<Vec<Entry>>,
}

/// Rows read at a time.
const CHUNK: usize = 1_000;
/// More problems than this tell nothing new.
const MOST_PROBLEMS: usize = 100;

struct Checker<'a> {
    inner: &'a Inner,
    began: State,
    report: Report,
    last: HashMap<Key, Last>,
    /// Versions whose predecessor is not there: fine if it was compacted.
    orphans: Vec<(Key, Revision)>,
    newest: (Position, Revision),
}

pub(crate) async fn check(inner: &Inner) -> Result<Report, Error> {
    let integrity = inner.engine.integrity().await?;
    let began = inner.engine.state().await?;
    let report = Report {
        revision: began.revision,
        oldest: began.compacted,
        secrets_opened: inner.keyring.is_some(),
        ..Report::default()
    };
    let newest = (0, Revision::ZERO);
    let mut checker = Checker { inner, began, report, last: HashMap::new(), orphans: Vec::new(), newest };
    for line in integrity {
        checker.found(&"database file", line);
    }
    checker.versions().await?;
    checker.heads().await?;
    let compacted = inner.engine.state().await?.compacted;
    for (key, revision) in std::mem::take(&mut checker.orphans) {
        if revision > compacted {
            checker.found(&key, format!("revision {revision} replaced a version that is not there"));
        }
    }
    Ok(checker.report)
}

impl Checker<'_> {
    fn found(&mut self, place: &dyn fmt::Display, finding: impl Into<String>) {
        if self.report.problems.len() < MOST_PROBLEMS {
            self.report.problems.push(Problem { place: place.to_string(), finding: finding.into() });
        }
    }

    async fn versions(&mut self) -> Result<(), Error> {
        let mut after = 0;
        loop {
            let scanned = self.inner.engine.scan(after, CHUNK).await?;
            let Some(last) = scanned.last() else { return Ok(()) };
            after = last.position;
            let began = self.began.position;
            for version in scanned.into_iter().filter(|version| version.position <= began) {
                self.version(version);
            }
        }
    }

    fn version(&mut self, version: Scanned) {
        let Scanned { position, key, revision, previous, etag, body, sealing_key } = version;
        self.report.versions += 1;
        let (newest_position, newest_revision) = self.newest;
        if position <= newest_position || revision < newest_revision || revision > self.began.revision {
            self.found(&key, format!("revision {revision} at position {position} is out of order"));
        }
        self.newest = (position, revision);
        if etag.is_some() != body.is_some() {
            self.found(&key, format!("revision {revision} has only one of etag and body"));
        }
        if let Some(id) = &sealing_key {
            *self.report.sealed.entry(id.clone()).or_default() += 1;
        }
        let before = self.last.get(&key).map(|last| (last.live, last.position, last.revision));
        match (previous, before) {
            (Some(previous), Some((live, position, _)))
                if previous == if live { position } else { -position } => {}
            (None, None) => {}
            // A tombstone goes with the compaction that passes it, a replaced version with that of its successor.
            (Some(previous), None) if previous < 0 => {}
            (Some(_), None) => self.orphans.push((key.clone(), revision)),
            (previous, before) => self.found(
                &key,
                format!("revision {revision} replaced {previous:?}, but the version before is {before:?}"),
            ),
        }
        if before.is_some_and(|(_, _, before)| before == revision) {
            self.found(&key, format!("revision {revision} changed it twice"));
        }
        let live = body.is_some();
        let entries = body.and_then(|body| self.body(&key, revision, &body, sealing_key.is_some()));
        self.last.insert(key, Last { position, revision, live, entries });
    }

    /// Checks a body, and answers what the indexes should have of it.
    fn body(
        &mut self,
        key: &Key,
        revision: Revision,
        body: &std::sync::Arc<str>,
        sealed: bool,
    ) -> Option<Vec<Entry>> {
        let Ok(container) = self.inner.catalog.prepared(&key.container).cloned() else {
            self.found(key, "its container is not in the catalogue");
            return None;
        };
        let mut outline = match seal::outline(key, body) {
            Ok(outline) => outline,
            Err(error) => {
                self.found(key, format!("revision {revision}: {error}"));
                return None;
            }
        };
        if sealed && !container.has_secrets() {
            self.found(key, format!("revision {revision} is sealed, its container has no secrets"));
        }
        if self.inner.keyring.is_some() {
            let opened = seal::open(&container, key, body.clone(), self.inner.keyring.as_ref());
            if let Err(error) = opened {
                self.found(key, format!("revision {revision}: {error}"));
            }
        } else {
            match seal::first_in_clear(&container, key, &mut outline) {
                Ok(None) => {}
                Ok(Some(pointer)) => {
                    self.found(key, format!("revision {revision} has the secret at `{pointer}` in clear"));
                }
                Err(error) => self.found(key, format!("revision {revision}: {error}")),
            }
        }
        self.entries(&container, key, &mut outline)
    }

    fn entries(&mut self, container: &Prepared, key: &Key, body: &mut Outline<'_>) -> Option<Vec<Entry>> {
        match container.entries(body) {
            Ok(mut entries) => {
                entries.sort_unstable();
                Some(entries)
            }
            Err(error) => {
                self.found(key, error.to_string());
                None
            }
        }
    }

    async fn heads(&mut self) -> Result<(), Error> {
        let mut behind = None;
        loop {
            let heads = self.inner.engine.heads(behind, CHUNK).await?;
            let Some((last, _)) = heads.last() else { break };
            behind = Some(last.clone());
            for (key, head) in heads {
                self.head(&key, &head);
            }
        }
        let lost: Vec<Key> =
            self.last.iter().filter(|(_, last)| last.live).map(|(key, _)| key.clone()).collect();
        for key in lost {
            self.found(&key, "it has versions, and no head");
        }
        Ok(())
    }

    fn head(&mut self, key: &Key, head: &Head) {
        let last = self.last.remove(key);
        if head.position > self.began.position {
            return;
        }
        if head.etag.is_some() {
            self.report.documents += 1;
            *self.report.containers.entry(key.container.to_string()).or_default() += 1;
        }
        let Some(last) = last else {
            self.found(key, format!("its newest version, revision {}, is not there", head.revision));
            return;
        };
        if (last.position, last.revision, last.live) != (head.position, head.revision, head.etag.is_some()) {
            self.found(
                key,
                format!("its newest version is {}, its head says {}", last.revision, head.revision),
            );
        }
        let mut entries: Vec<Entry> = head.entries.iter().map(|(entry, _)| entry.clone()).collect();
        entries.sort_unstable();
        if last.entries.unwrap_or_default() != entries {
            self.found(key, "the indexes do not have what the document says");
        }
    }
}
