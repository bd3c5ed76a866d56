//! The engine without a disk: for tests, and as the plainest statement of what an engine does.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use pilothouse_runtime::Clock;

use crate::container::{Entry, Specification};
use crate::engine::{
    Changed, Command, Due, Engine, Head, Maintenance, Position, Read, Reply, Scanned, Scope, State, Version,
};
use crate::lease::LeaseRow;
use crate::plan::{NewVersion, OpenEntry, Touched, World, plan};
use crate::query::List;
use crate::transaction::Key;
use crate::wake::{Topic, Wakes};
use crate::{DocumentId, Error, LeaseName, Revision};

#[derive(Debug)]
pub(crate) struct Memory {
    clock: Clock,
    incarnation: u32,
    wakes: Arc<Wakes>,
    rows: Mutex<Rows>,
}

#[derive(Debug)]
struct Rows {
    state: State,
    versions: BTreeMap<Position, NewVersion>,
    by_key: BTreeMap<Key, Vec<Position>>,
    heads: BTreeMap<Key, Head>,
    /// Index entries and the revision that ended them.
    entries: BTreeMap<OpenEntry, Option<Revision>>,
    leases: HashMap<LeaseName, LeaseRow>,
    marks: BTreeMap<Revision, i64>,
    retired_keys: HashSet<String>,
    catalog: BTreeMap<String, (Specification, bool)>,
}

impl Memory {
    pub(crate) fn new(clock: Clock, incarnation: u32, wakes: Arc<Wakes>) -> Self {
        let state = State { revision: Revision::ZERO, position: 0, compacted: Revision::ZERO, generation: 0 };
        let rows = Rows {
            state,
            versions: BTreeMap::new(),
            by_key: BTreeMap::new(),
            heads: BTreeMap::new(),
            entries: BTreeMap::new(),
            leases: HashMap::new(),
            marks: BTreeMap::new(),
            retired_keys: HashSet::new(),
            catalog: BTreeMap::new(),
        };
        Self { clock, incarnation, wakes, rows: Mutex::new(rows) }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> i64 {
        self.clock.now().as_microsecond()
    }

    fn carry_out(&self, command: &Command) -> Result<Reply, Error> {
        let mut rows = self.rows();
        if let Command::Maintain(maintenance) = command {
            return Ok(rows.maintain(maintenance, self.now()));
        }
        let touched = Touched::by([command]);
        let heads = touched.keys.iter().filter_map(|key| Some((key.clone(), rows.heads.get(key)?.clone())));
        let leases =
            touched.leases.iter().filter_map(|name| Some((name.clone(), rows.leases.get(name)?.clone())));
        let world = World {
            state: rows.state,
            now: self.now(),
            incarnation: self.incarnation,
            heads: heads.collect(),
            leases: leases.collect(),
            retired_keys: rows.retired_keys.clone(),
        };
        let mut plan = plan([command], world);
        let topics = Topic::of(&plan);
        rows.state = plan.state;
        rows.heads.append(&mut plan.heads);
        for version in std::mem::take(&mut plan.versions) {
            rows.by_key.entry(version.key.clone()).or_default().push(version.position);
            rows.versions.insert(version.position, version);
        }
        rows.entries.append(&mut plan.opened);
        for (open, until) in std::mem::take(&mut plan.closed) {
            rows.entries.insert(open, Some(until));
        }
        rows.leases.extend(std::mem::take(&mut plan.leases));
        let revision = rows.state.revision;
        drop(rows);
        self.wakes.wake(&topics);
        self.wakes.saw(revision);
        plan.replies.pop().unwrap_or(Err(Error::Closed))
    }
}

impl Rows {
    /// The version of a document that was present at a revision.
    fn at(&self, key: &Key, revision: Revision) -> Option<&NewVersion> {
        let positions = self.by_key.get(key)?;
        let versions = positions.iter().rev().filter_map(|position| self.versions.get(position));
        versions.into_iter().find(|version| version.revision <= revision)
    }

    fn read<T>(&self, found: T) -> Read<T> {
        Read { state: self.state, found }
    }

    fn maintain(&mut self, maintenance: &Maintenance, now: i64) -> Reply {
        match maintenance {
            Maintenance::Mark { horizon } => {
                self.marks.entry(self.state.revision).or_insert(now);
                let old = self.marks.iter().rev().find(|(_, at)| **at <= now - horizon);
                return Reply::Marked(old.map(|(revision, _)| *revision));
            }
            Maintenance::Compact { through } => {
                self.state.compacted = self.state.compacted.max(*through).min(self.state.revision);
                let compacted = self.state.compacted;
                self.marks.retain(|revision, _| *revision >= compacted);
            }
            Maintenance::Sweep { .. } => self.sweep(),
            Maintenance::Declare { specification } => self.declare(specification),
            Maintenance::Declared { specification } => {
                self.catalog.insert(specification.name.clone(), ((**specification).clone(), true));
            }
            Maintenance::Reindex { rows } => {
                for (key, since, entries) in rows {
                    for entry in entries {
                        let open = OpenEntry { key: key.clone(), entry: entry.clone(), since: *since };
                        self.entries.insert(open, None);
                    }
                    if let Some(head) = self.heads.get_mut(key) {
                        head.entries = entries.iter().map(|entry| (entry.clone(), *since)).collect();
                    }
                }
            }
            Maintenance::Reseal { rows } => {
                for (position, body, sealing_key) in rows {
                    if let Some(version) = self.versions.get_mut(position) {
                        version.body = Some(body.clone());
                        version.sealing_key.clone_from(sealing_key);
                    }
                }
            }
            Maintenance::RetireKey { id } => {
                self.retired_keys.insert(id.clone());
            }
        }
        Reply::Done
    }

    fn declare(&mut self, specification: &Specification) {
        let declared = (specification.clone(), false);
        if self.catalog.insert(specification.name.clone(), declared).is_none() {
            return;
        }
        self.entries.retain(|open, _| *open.key.container != *specification.name);
        for (key, head) in &mut self.heads {
            if *key.container == *specification.name {
                head.entries.clear();
            }
        }
        self.state.compacted = self.state.revision;
        self.state.generation += 1;
    }

    fn sweep(&mut self) {
        let compacted = self.state.compacted;
        let old = self.versions.values().filter(|version| version.revision <= compacted);
        let mut gone: HashSet<Position> = HashSet::new();
        for version in old {
            gone.extend(version.previous);
            if version.body.is_none() {
                gone.insert(version.position);
            }
        }
        self.versions.retain(|position, _| !gone.contains(position));
        for positions in self.by_key.values_mut() {
            positions.retain(|position| !gone.contains(position));
        }
        self.by_key.retain(|_, positions| !positions.is_empty());
        self.heads.retain(|_, head| !gone.contains(&head.position));
        self.entries.retain(|_, until| until.is_none_or(|until| until > compacted));
    }
}

fn version(row: &NewVersion) -> Option<Version> {
    Some(Version {
        key: row.key.clone(),
        revision: row.revision,
        etag: row.etag.clone()?,
        body: row.body.clone()?,
        expires_at: row.expires_at,
    })
}

fn answer<T: Send + 'static>(answer: T) -> BoxFuture<'static, Result<T, Error>> {
    ready(Ok(answer)).boxed()
}

impl Engine for Memory {
    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Reply, Error>> {
        let reply = self.carry_out(&command);
        // Like any other engine, give way between write and answer.
        async move {
            tokio::task::yield_now().await;
            reply
        }
        .boxed()
    }

    fn present(&self, key: Key) -> BoxFuture<'_, Result<Option<Version>, Error>> {
        let rows = self.rows();
        answer(rows.at(&key, rows.state.revision).and_then(version))
    }

    fn past(&self, key: Key, at: Revision) -> BoxFuture<'_, Result<Read<Option<Version>>, Error>> {
        let rows = self.rows();
        let found = rows.at(&key, at).and_then(version);
        answer(rows.read(found))
    }

    fn list(&self, list: List) -> BoxFuture<'_, Result<Read<Vec<Version>>, Error>> {
        let rows = self.rows();
        let at = list.at.unwrap_or(rows.state.revision);
        let has = |key: &Key, index: &Arc<str>, value: &String| {
            let entry = Entry { index: index.clone(), value: value.clone() };
            let first = OpenEntry { key: key.clone(), entry: entry.clone(), since: Revision::ZERO };
            let last = OpenEntry { key: key.clone(), entry, since: at };
            rows.entries.range(first..=last).any(|(_, until)| until.is_none_or(|until| until > at))
        };
        let found = rows
            .by_key
            .keys()
            .filter(|key| key.container == list.container)
            .filter(|key| list.partition.as_ref().is_none_or(|partition| key.partition == *partition))
            .filter(|key| key.id.as_str().starts_with(&list.prefix))
            .filter(|key| {
                list.behind.as_ref().is_none_or(|(partition, id)| (&key.partition, &key.id) > (partition, id))
            })
            .filter(|key| list.matching.as_ref().is_none_or(|(index, value)| has(key, index, value)))
            .filter_map(|key| rows.at(key, at).and_then(version))
            .take(list.limit)
            .collect();
        answer(rows.read(found))
    }

    fn ids(&self, list: List) -> BoxFuture<'_, Result<Read<Vec<DocumentId>>, Error>> {
        async move {
            let Read { state, found } =
                self.list(List { limit: usize::MAX, at: None, behind: None, ..list }).await?;
            Ok(Read { state, found: found.into_iter().map(|version| version.key.id).collect() })
        }
        .boxed()
    }

    fn changes(
        &self,
        scope: Scope,
        after: Revision,
        limit: usize,
    ) -> BoxFuture<'_, Result<Read<Vec<Changed>>, Error>> {
        let rows = self.rows();
        let mut found: Vec<Changed> = Vec::new();
        for row in rows.versions.values().filter(|row| row.revision > after) {
            let wanted = match &scope {
                Scope::Partition(partition) => row.key.partition == *partition,
                Scope::Container(container) => row.key.container == *container,
            };
            if !wanted {
                continue;
            }
            if found.len() >= limit && found.last().is_some_and(|last| last.revision != row.revision) {
                break;
            }
            found.push(Changed {
                key: row.key.clone(),
                revision: row.revision,
                expired: row.expired,
                before: row.previous.and_then(|position| rows.versions.get(&position)).and_then(version),
                after: version(row),
            });
        }
        answer(rows.read(found))
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Due, Error>> {
        let now = self.now();
        let rows = self.rows();
        let mut expiring: Vec<_> =
            rows.heads.iter().filter_map(|(key, head)| Some((head.expires_at?, key))).collect();
        expiring.sort_unstable();
        let keys =
            expiring.iter().take_while(|(at, _)| *at <= now).take(limit).map(|(_, key)| (*key).clone());
        let next = expiring.iter().find(|(at, _)| *at > now).map(|(at, _)| at - now);
        answer(Due { keys: keys.collect(), next })
    }

    fn scan(&self, after: Position, limit: usize) -> BoxFuture<'_, Result<Vec<Scanned>, Error>> {
        let rows = self.rows();
        let scanned = rows.versions.range(after + 1..).take(limit).map(|(position, row)| Scanned {
            position: *position,
            key: row.key.clone(),
            revision: row.revision,
            previous: row.previous,
            etag: row.etag.clone(),
            body: row.body.clone(),
            sealing_key: row.sealing_key.clone(),
        });
        answer(scanned.collect())
    }

    fn heads(&self, behind: Option<Key>, limit: usize) -> BoxFuture<'_, Result<Vec<(Key, Head)>, Error>> {
        use std::ops::Bound;
        let rows = self.rows();
        let start = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let heads = rows.heads.range((start, Bound::Unbounded)).take(limit);
        answer(heads.map(|(key, head)| (key.clone(), head.clone())).collect())
    }

    fn state(&self) -> BoxFuture<'_, Result<State, Error>> {
        answer(self.rows().state)
    }

    fn catalog(&self) -> BoxFuture<'_, Result<Vec<(Specification, bool)>, Error>> {
        answer(self.rows().catalog.values().cloned().collect())
    }

    fn is_shared(&self) -> bool {
        false
    }

    /// Nobody else can have it open.
    fn adopt(&self, _generation: i64) {}

    fn integrity(&self) -> BoxFuture<'_, Result<Vec<String>, Error>> {
        answer(Vec::new())
    }

    fn backup(&self, _file: camino::Utf8PathBuf) -> BoxFuture<'_, Result<(), Error>> {
        let refusal = Error::Invalid {
            what: "backup of a store in memory".to_owned(),
            problem: "it has nothing that would outlive it".to_owned(),
        };
        ready(Err(refusal)).boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }
}
