//! Random histories of writes, compactions and reads, run on all three engines and on a model that is too
//! simple to be wrong: all must agree on every answer.

use std::collections::BTreeMap;

use pilothouse_store::{
    Conflict, Error, Etag, Feed, LeaseName, Outcome, Partition, Precondition, Query, Revision, Store,
    Transaction,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::fixture::{Fixture, Kind, all_pages, id, notes, tokens};

/// What a random history consists of. Names are few, so that writes meet.
#[derive(Clone, Debug)]
enum Step {
    Commit {
        partition: u8,
        operations: Vec<Operation>,
        fenced: bool,
    },
    Lease {
        holder: u8,
        release: bool,
    },
    /// Forgets the past, up to a fraction of it.
    Compact {
        percent: u64,
    },
    List {
        partition: Option<u8>,
        colour: Option<u8>,
        limit: usize,
        back: u64,
    },
    Follow,
}

#[derive(Clone, Debug)]
struct Operation {
    container: bool,
    id: u8,
    precondition: Expectation,
    action: Action,
}

#[derive(Clone, Copy, Debug)]
enum Expectation {
    Absent,
    Any,
    Current,
    Stale,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Put { colour: u8, number: u16 },
    Delete,
    Check,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let action = prop_oneof![
        5 => (0..3u8, any::<u16>()).prop_map(|(colour, number)| Action::Put { colour, number }),
        2 => Just(Action::Delete),
        1 => Just(Action::Check),
    ];
    let expectation = prop_oneof![
        2 => Just(Expectation::Absent),
        4 => Just(Expectation::Any),
        3 => Just(Expectation::Current),
        1 => Just(Expectation::Stale),
    ];
    let operation = (any::<bool>(), 0..5u8, expectation, action)
        .prop_map(|(container, id, precondition, action)| Operation { container, id, precondition, action });
    let step = prop_oneof![
        12 => (0..2u8, prop::collection::vec(operation, 1..4), prop::bool::weighted(0.2))
            .prop_map(|(partition, operations, fenced)| Step::Commit { partition, operations, fenced }),
        2 => (0..2u8, any::<bool>()).prop_map(|(holder, release)| Step::Lease { holder, release }),
        1 => (0..100u64).prop_map(|percent| Step::Compact { percent }),
        3 => (prop::option::of(0..2u8), prop::option::of(0..3u8), 1..4usize, 0..6u64)
            .prop_map(|(partition, colour, limit, back)| Step::List { partition, colour, limit, back }),
        2 => Just(Step::Follow),
    ];
    prop::collection::vec(step, 1..40)
}

fn partition(number: u8) -> Partition {
    Partition::try_new(["ada", "bob"][usize::from(number)]).unwrap()
}

/// (container, partition, id): the revision and value.
type Snapshot = BTreeMap<(String, String, String), (u64, Value)>;

/// The whole state at every revision, and nothing else.
#[derive(Default)]
struct Model {
    snapshots: Vec<Snapshot>,
    compacted: u64,
    /// The lease's holder and token.
    lease: Option<(String, u64)>,
    token: u64,
    /// The last token that was given to a holder, as a fence.
    fence: Option<u64>,
    follower: u64,
    follower_container: u64,
}

impl Model {
    fn new() -> Self {
        Self { snapshots: vec![Snapshot::new()], ..Self::default() }
    }

    fn now(&self) -> u64 {
        self.snapshots.len() as u64 - 1
    }

    fn present(&self) -> &Snapshot {
        self.snapshots.last().unwrap()
    }

    fn commit(&mut self, number: u8, operations: &[Operation], fenced: bool) -> String {
        if fenced && self.fence.is_some() && self.lease.as_ref().map(|(_, token)| *token) != self.fence {
            return "lease lost".to_owned();
        }
        let mut next = self.present().clone();
        let revision = self.now() + 1;
        let mut outcomes = Vec::new();
        for operation in operations {
            let key = key(number, operation);
            let exists = self.present().contains_key(&key);
            match (operation.precondition, exists) {
                (Expectation::Absent, true) => return format!("exists {}", key.2),
                (Expectation::Current | Expectation::Stale, false) => return format!("missing {}", key.2),
                (Expectation::Stale, true) => return format!("changed {}", key.2),
                _ => {}
            }
        }
        for operation in operations {
            let key = key(number, operation);
            outcomes.push(match operation.action {
                Action::Put { colour, number } => {
                    next.insert(key, (revision, body(colour, number)));
                    "written"
                }
                Action::Delete if next.remove(&key).is_some() => "deleted",
                Action::Delete | Action::Check => "unchanged",
            });
        }
        if outcomes.iter().any(|outcome| *outcome != "unchanged") {
            self.snapshots.push(next);
        }
        format!("{} {outcomes:?}", self.now())
    }

    fn acquire(&mut self, holder: &str) -> String {
        match &self.lease {
            Some((other, _)) if other != holder => format!("held by {other}"),
            _ => {
                self.token += 1;
                self.lease = Some((holder.to_owned(), self.token));
                self.fence = Some(self.token);
                format!("token {}", self.token)
            }
        }
    }

    fn release(&mut self) -> String {
        match (&self.lease, self.fence) {
            (_, None) => "nothing to release".to_owned(),
            (Some((_, token)), Some(fence)) if *token == fence => {
                self.lease = None;
                "released".to_owned()
            }
            _ => "lease lost".to_owned(),
        }
    }

    fn list(&self, number: Option<u8>, colour: Option<u8>, back: u64) -> String {
        let at = self.now().saturating_sub(back);
        if at < self.compacted {
            return "too old".to_owned();
        }
        let found: Vec<String> = self.snapshots[usize::try_from(at).unwrap()]
            .iter()
            .filter(|((container, of, _), (_, body))| {
                container == "notes"
                    && number.is_none_or(|number| partition(number).as_str() == of)
                    && colour.is_none_or(|colour| body["colour"] == name(colour))
            })
            .map(|((_, partition, id), (revision, body))| format!("{partition}/{id}@{revision}={body}"))
            .collect();
        format!("{found:?}")
    }

    /// What changed in one partition, or one container, between two revisions.
    fn changes(&self, after: u64, wanted: impl Fn(&(String, String, String)) -> bool) -> String {
        if after < self.compacted {
            return "too old".to_owned();
        }
        let mut lines = Vec::new();
        for revision in after + 1..=self.now() {
            let (before, now) = (
                &self.snapshots[usize::try_from(revision - 1).unwrap()],
                &self.snapshots[usize::try_from(revision).unwrap()],
            );
            let mut of_revision: Vec<String> = before
                .keys()
                .chain(now.keys())
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .filter(|key| {
                    wanted(key) && before.get(*key).map(|(r, _)| r) != now.get(*key).map(|(r, _)| r)
                })
                .map(|key| {
                    let text = |found: Option<&(u64, Value)>| {
                        found.map_or_else(|| "-".to_owned(), |(r, body)| format!("{r}:{body}"))
                    };
                    format!("{revision} {key:?} {} → {}", text(before.get(key)), text(now.get(key)))
                })
                .collect();
            lines.append(&mut of_revision);
        }
        format!("{lines:?}")
    }

    fn follow(&mut self) -> String {
        let of_partition = self.changes(self.follower, |key| key.1 == "ada");
        let of_container = self.changes(self.follower_container, |key| key.0 == "tokens");
        self.follower = self.now();
        self.follower_container = self.now();
        format!("{of_partition} | {of_container}")
    }

    fn step(&mut self, step: &Step) -> String {
        match step {
            Step::Commit { partition, operations, fenced } => self.commit(*partition, operations, *fenced),
            Step::Lease { release: true, .. } => self.release(),
            Step::Lease { holder, release: false } => self.acquire(&format!("holder-{holder}")),
            Step::Compact { percent } => {
                self.compacted = self.compacted.max(self.now() * percent / 100);
                format!("compacted {}", self.compacted)
            }
            Step::List { partition, colour, back, .. } => self.list(*partition, *colour, *back),
            Step::Follow => self.follow(),
        }
    }
}

fn name(colour: u8) -> &'static str {
    ["red", "green", "blue"][usize::from(colour)]
}

fn body(colour: u8, number: u16) -> Value {
    json!({"colour": name(colour), "data": {"number": number}})
}

fn key(number: u8, operation: &Operation) -> (String, String, String) {
    let container = if operation.container { "notes" } else { "tokens" };
    (container.to_owned(), partition(number).to_string(), format!("id-{}", operation.id))
}

/// The same steps on a real store.
struct Subject {
    store: Store,
    lease: Option<pilothouse_store::Lease>,
    follower: Feed,
    follower_container: Feed,
}

impl Subject {
    fn new(store: Store) -> Self {
        let follower = store.partition_feed(&partition(0), Revision::ZERO);
        let follower_container = store.container_feed(&tokens(), Revision::ZERO).unwrap();
        Self { store, lease: None, follower, follower_container }
    }

    async fn commit(&self, number: u8, operations: &[Operation], fenced: bool) -> String {
        let mut transaction = Transaction::new(partition(number));
        for operation in operations {
            let container = if operation.container { notes() } else { tokens() };
            let id = id(&format!("id-{}", operation.id));
            let precondition = match operation.precondition {
                Expectation::Absent => Precondition::Absent,
                Expectation::Any => Precondition::Any,
                Expectation::Stale => Precondition::Etag(Etag::from_text("stale")),
                Expectation::Current => {
                    let found = self.store.get(&container, &partition(number), &id).await.unwrap();
                    Precondition::Etag(
                        found.map_or_else(|| Etag::from_text("none"), |document| document.etag),
                    )
                }
            };
            match operation.action {
                Action::Put { colour, number } => {
                    transaction.put(&container, id, precondition, &body(colour, number)).unwrap();
                }
                Action::Delete => {
                    transaction.delete(&container, id, precondition);
                }
                Action::Check => {
                    transaction.check(&container, id, precondition);
                }
            }
        }
        if let Some(lease) = self.lease.as_ref().filter(|_| fenced) {
            transaction.fenced_by(lease);
        }
        match self.store.commit(&transaction).await {
            Ok(committed) => {
                let outcomes: Vec<_> = committed
                    .outcomes
                    .iter()
                    .map(|outcome| match outcome {
                        Outcome::Written(_) => "written",
                        Outcome::Deleted => "deleted",
                        Outcome::Unchanged => "unchanged",
                    })
                    .collect();
                format!("{} {outcomes:?}", committed.revision)
            }
            Err(Error::Conflict(Conflict::Exists { id, .. })) => format!("exists {id}"),
            Err(Error::Conflict(Conflict::Missing { id, .. })) => format!("missing {id}"),
            Err(Error::Conflict(Conflict::Changed { id, .. })) => format!("changed {id}"),
            Err(Error::Conflict(Conflict::LeaseLost { .. })) => "lease lost".to_owned(),
            Err(error) => panic!("{error}"),
        }
    }

    async fn lease(&mut self, holder: u8, release: bool) -> String {
        let name = LeaseName::try_new("work").unwrap();
        if release {
            return match &self.lease {
                None => "nothing to release".to_owned(),
                Some(lease) => match self.store.lease_release(lease).await {
                    Ok(()) => "released".to_owned(),
                    Err(Error::Conflict(Conflict::LeaseLost { .. })) => "lease lost".to_owned(),
                    Err(error) => panic!("{error}"),
                },
            };
        }
        let forever = std::time::Duration::from_secs(1_000_000);
        match self.store.lease_acquire(&name, &format!("holder-{holder}"), forever).await {
            Ok(lease) => {
                let token = lease.token();
                self.lease = Some(lease);
                format!("token {token}")
            }
            Err(Error::LeaseHeld { holder, .. }) => format!("held by {holder}"),
            Err(error) => panic!("{error}"),
        }
    }

    async fn list(&self, number: Option<u8>, colour: Option<u8>, limit: usize, back: u64) -> String {
        let at = self.store.revision().await.unwrap().number().saturating_sub(back);
        let mut query = match number {
            Some(number) => Query::partition(&notes(), &partition(number)),
            None => Query::all(&notes()),
        };
        if let Some(colour) = colour {
            query = query.matching("colour", name(colour));
        }
        query = query.at(Revision::from_number(at));
        match self.store.list(query.clone()).await {
            Err(Error::TooOld { .. }) => return "too old".to_owned(),
            Err(error) => panic!("{error}"),
            Ok(_) => {}
        }
        let found: Vec<String> = all_pages(&self.store, query, limit)
            .await
            .iter()
            .flat_map(|page| &page.documents)
            .map(|d| format!("{}/{}@{}={}", d.partition, d.id, d.revision, d.text()))
            .collect();
        format!("{found:?}")
    }

    async fn follow(&mut self) -> String {
        let now = self.store.revision().await.unwrap();
        let of_partition = changes(&mut self.follower, &self.store, now, Some(partition(0))).await;
        let of_container = changes(&mut self.follower_container, &self.store, now, None).await;
        format!("{of_partition} | {of_container}")
    }

    async fn step(&mut self, step: &Step) -> String {
        match step {
            Step::Commit { partition, operations, fenced } => {
                self.commit(*partition, operations, *fenced).await
            }
            Step::Lease { holder, release } => self.lease(*holder, *release).await,
            Step::Compact { percent } => {
                let now = self.store.revision().await.unwrap().number();
                self.store.compact(Revision::from_number(now * percent / 100)).await.unwrap();
                format!("compacted {}", self.store.oldest_revision().await.unwrap())
            }
            Step::List { partition, colour, limit, back } => {
                self.list(*partition, *colour, *limit, *back).await
            }
            Step::Follow => self.follow().await,
        }
    }
}

async fn changes(feed: &mut Feed, store: &Store, now: Revision, of: Option<Partition>) -> String {
    let batch = match feed.ready().await {
        Ok(batch) => batch,
        Err(Error::TooOld { .. }) => {
            *feed = match of {
                Some(partition) => store.partition_feed(&partition, now),
                None => store.container_feed(&tokens(), now).unwrap(),
            };
            return "too old".to_owned();
        }
        Err(error) => panic!("{error}"),
    };
    let text = |document: Option<pilothouse_store::Document>| {
        document
            .map_or_else(|| "-".to_owned(), |document| format!("{}:{}", document.revision, document.text()))
    };
    let mut lines: Vec<(Revision, (String, String, String), String)> = batch
        .changes
        .into_iter()
        .map(|change| {
            let key = (change.container.to_string(), change.partition.to_string(), change.id.to_string());
            (change.revision, key, format!("{} → {}", text(change.before), text(change.after)))
        })
        .collect();
    assert!(lines.is_sorted_by_key(|(revision, _, _)| *revision));
    // Within a transaction the order is the writer's; the model has none.
    lines.sort();
    let lines: Vec<_> =
        lines.into_iter().map(|(revision, key, text)| format!("{revision} {key:?} {text}")).collect();
    format!("{lines:?}")
}

/// A document may be named once a transaction.
fn tidy(steps: &mut [Step]) {
    for step in steps {
        if let Step::Commit { operations, .. } = step {
            let mut named = std::collections::HashSet::new();
            operations.retain(|operation| named.insert((operation.container, operation.id)));
        }
    }
}

#[test]
fn all_engines_agree_with_the_model_on_random_histories() {
    let cases = u32::try_from(pilothouse_test_support::environment::rounds(60, 2_000)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&steps(), |mut steps| {
        tidy(&mut steps);
        runtime.block_on(async {
            for kind in [Kind::Memory, Kind::Sqlite, Kind::Postgres] {
                let Some(fixture) = Fixture::new(kind) else { continue };
                let mut subject = Subject::new(fixture.store().await);
                let mut model = Model::new();
                for (number, step) in steps.iter().enumerate() {
                    let (expected, found) = (model.step(step), subject.step(step).await);
                    prop_assert_eq!(expected, found, "{:?}, step {}: {:?}", kind, number, step);
                }
                let problems = subject.store.check().await.unwrap().problems;
                prop_assert!(problems.is_empty(), "{:?}: {:?}", kind, problems);
                subject.store.close().await;
            }
            Ok(())
        })
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
