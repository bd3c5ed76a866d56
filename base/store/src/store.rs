//! The store as its users see it.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8PathBuf;
use pilothouse_runtime::{Clock, OnExit, Shutdown, Tasks, fault};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::container::Prepared as Declared;
use crate::engine::{
    Command, Content, Engine, Guard, LeaseReply, Prepared, PreparedAction, PreparedOperation, Reply, Scope,
    Version,
};
use crate::lease::LeaseCommand;
use crate::location::Place;
use crate::memory::Memory;
use crate::outline::Outline;
use crate::query::List;
use crate::transaction::{Action, Body, Key, Operation};
use crate::wake::{Topic, Wakes};
use crate::{
    Catalog, Committed, Conflict, Container, Continue, Cursor, Document, DocumentId, Error, Feed, Keyring,
    Lease, LeaseName, Location, Page, Partition, Precondition, Query, Retention, Revision, Transaction,
    check, declare, expiry, postgres, retention, seal, sqlite,
};

/// A handle to an open store. Clones share it. [Close](Store::close) it before the same file is opened again.
#[derive(Clone, Debug)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) catalog: Catalog,
    pub(crate) keyring: Option<Keyring>,
    pub(crate) wakes: Arc<Wakes>,
    pub(crate) clock: Clock,
    tasks: Tasks,
}

/// What a store is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it is.
    pub location: Location,
    /// What is in it. Indexes that were not there before are built while it opens.
    pub catalog: Catalog,
    /// Needed if the catalogue has secrets.
    pub keyring: Option<Keyring>,
    /// How long the past is kept.
    pub retention: Retention,
    /// The database's clock, where the database has none of its own: in memory and on SQLite.
    pub clock: Clock,
    /// Told if one of the store's own tasks fails.
    pub shutdown: Shutdown,
}

/// What [`Store::update`] is to do with a document it was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Write it as it now is.
    Write,
    /// Leave it as it was.
    Keep,
}

/// How long closing waits for what was submitted.
const CLOSE: Duration = Duration::from_secs(30);
/// How often an update is tried against others who change the same document.
const ATTEMPTS: usize = 10;

impl Options {
    /// With the system's clock and the default retention.
    pub fn new(location: Location, catalog: Catalog, shutdown: Shutdown) -> Self {
        Self {
            location,
            catalog,
            keyring: None,
            retention: Retention::default(),
            clock: Clock::system(),
            shutdown,
        }
    }
}

impl Store {
    /// Opens a store for reading and writing; makes it if there is none, migrates it if it is older.
    pub async fn open(options: Options) -> Result<Self, Error> {
        let Options { location, catalog, keyring, retention, clock, shutdown } = options;
        if catalog.has_secrets() && keyring.is_none() {
            return Err(Error::Invalid {
                what: "catalogue".to_owned(),
                problem: "it has secrets, and no keyring was given to seal them with".to_owned(),
            });
        }
        let tasks = Tasks::new("store", shutdown);
        let wakes = Arc::new(Wakes::default());
        let incarnation = rand::random();
        let engine: Box<dyn Engine> = match &location.0 {
            Place::Memory => Box::new(Memory::new(clock.clone(), incarnation, wakes.clone())),
            Place::Sqlite { path, durability } => Box::new(
                sqlite::open(path, *durability, clock.clone(), incarnation, wakes.clone(), &tasks).await?,
            ),
            Place::Postgres(address) => {
                Box::new(postgres::open(address, incarnation, wakes.clone(), &tasks).await?)
            }
        };
        let store = Self(Arc::new(Inner { engine, catalog, keyring, wakes, clock, tasks }));
        if let Err(error) = declare::declare(&store).await {
            // So that whoever tries again does not find the database in use.
            store.close().await;
            return Err(error);
        }
        store.start(retention);
        Ok(store)
    }

    /// Opens an existing store only to look at it, with the catalogue it has. Works beside a process that
    /// writes. Nothing can be committed.
    pub async fn inspect(
        location: &Location,
        keyring: Option<Keyring>,
        shutdown: Shutdown,
    ) -> Result<Self, Error> {
        let clock = Clock::system();
        let engine: Box<dyn Engine> = match &location.0 {
            Place::Memory => {
                return Err(Error::Foreign {
                    database: location.to_string(),
                    problem: "a store in memory cannot be looked at from outside".to_owned(),
                });
            }
            Place::Sqlite { path, .. } => Box::new(sqlite::inspect(path, clock.clone()).await?),
            Place::Postgres(address) => Box::new(postgres::inspect(address).await?),
        };
        let declared = engine.catalog().await?;
        let catalog =
            Catalog::try_new(declared.into_iter().map(|(specification, _)| Container::from(specification)))?;
        let wakes = Arc::new(Wakes::default());
        Ok(Self(Arc::new(Inner {
            engine,
            catalog,
            keyring,
            wakes,
            clock,
            tasks: Tasks::new("store", shutdown),
        })))
    }

    fn start(&self, retention: Retention) {
        let weak = Arc::downgrade(&self.0);
        let waiter = self.0.wakes.waiter(Topic::Expiry);
        let expiring = expiry::run(weak.clone(), waiter);
        self.0.tasks.spawn("delete expired documents", OnExit::Expendable, async move {
            expiring.await;
            Ok(())
        });
        self.0.tasks.spawn("compact", OnExit::Expendable, async move {
            retention::run(weak, retention).await;
            Ok(())
        });
    }

    /// Carries out a transaction. When this returns, it is durable and visible. If the call is dropped before,
    /// the transaction may or may not take place.
    pub async fn commit(&self, transaction: &Transaction) -> Result<Committed, Error> {
        let write = fault::Name::store_commit(|| transaction.kinds());
        fault::around_named(write, self.carry_out(transaction)).await
    }

    async fn carry_out(&self, transaction: &Transaction) -> Result<Committed, Error> {
        let submit = |prepared| self.0.engine.submit(Command::Commit(prepared));
        let reply = match submit(self.0.prepare(transaction)?).await {
            // Another process has retired the key; the file has a newer one.
            Err(Error::RetiredKey { .. }) if self.0.keyring.is_some() => {
                self.0.keyring.as_ref().map_or(Ok(()), Keyring::reload)?;
                submit(self.0.prepare(transaction)?).await
            }
            reply => reply,
        };
        match reply? {
            Reply::Committed(committed) => Ok(committed),
            _ => Err(Error::Closed),
        }
    }

    /// Writes one document that must not exist yet.
    pub async fn create(
        &self,
        container: &Container,
        partition: &Partition,
        id: DocumentId,
        body: &impl Serialize,
    ) -> Result<Committed, Error> {
        let mut transaction = Transaction::new(partition.clone());
        transaction.create(container, id, body)?;
        self.commit(&transaction).await
    }

    /// Writes one document.
    pub async fn put(
        &self,
        container: &Container,
        partition: &Partition,
        id: DocumentId,
        precondition: Precondition,
        body: &impl Serialize,
    ) -> Result<Committed, Error> {
        let mut transaction = Transaction::new(partition.clone());
        transaction.put(container, id, precondition, body)?;
        self.commit(&transaction).await
    }

    /// Deletes one document.
    pub async fn delete(
        &self,
        container: &Container,
        partition: &Partition,
        id: DocumentId,
        precondition: Precondition,
    ) -> Result<Committed, Error> {
        let mut transaction = Transaction::new(partition.clone());
        transaction.delete(container, id, precondition);
        self.commit(&transaction).await
    }

    /// Reads one document, lets `change` alter it, writes it back, and starts over if somebody else was
    /// faster. Answers the document as it is now.
    pub async fn update<T: Serialize + DeserializeOwned>(
        &self,
        container: &Container,
        partition: &Partition,
        id: &DocumentId,
        mut change: impl FnMut(&mut T) -> Decision,
    ) -> Result<T, Error> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let Some(document) = self.get(container, partition, id).await? else {
                return Err(
                    Conflict::Missing { container: container.name().to_owned(), id: id.clone() }.into()
                );
            };
            let mut value: T = document.parse()?;
            if change(&mut value) == Decision::Keep {
                return Ok(value);
            }
            let expected = Precondition::Etag(document.etag);
            match self.put(container, partition, id.clone(), expected, &value).await {
                Ok(_) => return Ok(value),
                Err(Error::Conflict(Conflict::Changed { .. })) if attempt < ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads one document, if it exists.
    pub async fn get(
        &self,
        container: &Container,
        partition: &Partition,
        id: &DocumentId,
    ) -> Result<Option<Document>, Error> {
        let found = self.0.engine.present(self.key(container, partition, id)?).await?;
        found.map(|version| self.0.open_version(version)).transpose()
    }

    /// Reads one document as it was at a revision that is still kept.
    pub async fn get_at(
        &self,
        container: &Container,
        partition: &Partition,
        id: &DocumentId,
        at: Revision,
    ) -> Result<Option<Document>, Error> {
        let (found, _) = self.0.engine.past(self.key(container, partition, id)?, at).await?.of(Some(at))?;
        found.map(|version| self.0.open_version(version)).transpose()
    }

    fn key(&self, container: &Container, partition: &Partition, id: &DocumentId) -> Result<Key, Error> {
        let declared = self.0.catalog.prepared(container.name())?;
        Ok(Key { container: declared.name.clone(), partition: partition.clone(), id: id.clone() })
    }

    /// A page of documents.
    pub async fn list(&self, query: Query) -> Result<Page, Error> {
        let (limit, sealed) = (query.limit, query.sealed);
        let list = self.0.list(query)?;
        let at = list.at;
        let (mut found, revision) = self.0.engine.list(list).await?.of(at)?;
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|last| Continue {
            revision,
            partition: last.key.partition.clone(),
            id: last.key.id.clone(),
        });
        let documents = if sealed {
            found.into_iter().map(Version::into_document).collect()
        } else {
            found.into_iter().map(|version| self.0.open_version(version)).collect::<Result<_, _>>()?
        };
        Ok(Page { documents, revision, next })
    }

    /// The ids of everything that a query finds now, and the state they are of. Neither its page nor its revision
    /// counts, and no document is read.
    pub async fn ids(&self, query: Query) -> Result<(Vec<DocumentId>, Revision), Error> {
        self.0.engine.ids(self.0.list(query)?).await?.of(None)
    }

    /// A document of a [sealed](Query::sealed) list as its owner wrote it.
    pub fn unsealed(&self, document: &Document) -> Result<Document, Error> {
        let Document { container, partition, id, .. } = document.clone();
        let declared = self.0.catalog.prepared(&container)?;
        let body = self.0.open_body(declared, &Key { container, partition, id }, document.body.clone())?;
        Ok(Document { body, ..document.clone() })
    }

    /// One secret of a document of a [sealed](Query::sealed) list as its owner wrote it. It is at `pointer`, and `sealed` is what
    /// stands there, as JSON.
    pub fn unsealed_value(
        &self,
        document: &Document,
        pointer: &str,
        sealed: &str,
    ) -> Result<impl Deref<Target = str> + use<>, Error> {
        let Document { container, partition, id, .. } = document;
        let key = Key { container: container.clone(), partition: partition.clone(), id: id.clone() };
        self.0.with_keys(|keyring| seal::open_value(&key, pointer, sealed, keyring))
    }

    /// What is in it, as it was opened with.
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// The newest revision.
    pub async fn revision(&self) -> Result<Revision, Error> {
        self.0.engine.state().await.map(|state| state.revision)
    }

    /// The oldest revision that can still be read or followed from.
    pub async fn oldest_revision(&self) -> Result<Revision, Error> {
        self.0.engine.state().await.map(|state| state.compacted)
    }

    /// Follows a partition, from what comes after a revision.
    pub fn partition_feed(&self, partition: &Partition, after: Revision) -> Feed {
        Feed::new(self.0.clone(), Scope::Partition(partition.clone()), after)
    }

    /// Follows a container across all partitions, from what comes after a revision.
    pub fn container_feed(&self, container: &Container, after: Revision) -> Result<Feed, Error> {
        let declared = self.0.catalog.prepared(container.name())?;
        Ok(Feed::new(self.0.clone(), Scope::Container(declared.name.clone()), after))
    }

    /// Follows a container from where a reader stood.
    pub fn container_feed_from(&self, container: &Container, cursor: &Cursor) -> Result<Feed, Error> {
        self.container_feed(container, cursor.after()?)
    }

    /// Takes a lease that is free, expired, or held under the same name.
    pub async fn lease_acquire(
        &self,
        name: &LeaseName,
        holder: &str,
        time_to_live: Duration,
    ) -> Result<Lease, Error> {
        let asked_at = Instant::now();
        let command = LeaseCommand::Acquire { name: name.clone(), holder: holder.to_owned(), time_to_live };
        let LeaseReply { holder, token } = self.lease(command).await?;
        Ok(Lease::new(name.clone(), holder, token, asked_at, time_to_live))
    }

    /// Waits until a lease can be taken, and takes it. Woken when it is released.
    pub async fn lease_wait(
        &self,
        name: &LeaseName,
        holder: &str,
        time_to_live: Duration,
    ) -> Result<Lease, Error> {
        let mut waiter = self.0.wakes.waiter(Topic::Lease(name.clone()));
        loop {
            waiter.arm();
            let clock = &self.0.clock;
            // Before the question: time that passes during it counts.
            let asked = clock.now();
            match self.lease_acquire(name, holder, time_to_live).await {
                Err(Error::LeaseHeld { remaining, .. }) => {
                    let remaining = jiff::SignedDuration::try_from(remaining).unwrap_or_default();
                    let until = asked.saturating_add(remaining).unwrap_or(jiff::Timestamp::MAX);
                    tokio::select! {
                        () = waiter.woken() => {}
                        () = clock.sleep_until(until) => {}
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// Keeps a lease for longer. Refused with [`Conflict::LeaseLost`] once it has run out, even if nobody else
    /// has taken it.
    pub async fn lease_renew(&self, lease: &Lease, time_to_live: Duration) -> Result<Lease, Error> {
        let asked_at = Instant::now();
        let LeaseReply { holder, token } =
            self.lease(LeaseCommand::Renew { fence: lease.fence(), time_to_live }).await?;
        Ok(Lease::new(lease.name().clone(), holder, token, asked_at, time_to_live))
    }

    /// Gives a lease back; whoever waits for it is woken.
    pub async fn lease_release(&self, lease: &Lease) -> Result<(), Error> {
        self.lease(LeaseCommand::Release { fence: lease.fence() }).await.map(drop)
    }

    async fn lease(&self, command: LeaseCommand) -> Result<LeaseReply, Error> {
        // Renewals go by the clock, the others by the work: whoever enumerates them wants to know which is which.
        let (before, after) = match &command {
            LeaseCommand::Acquire { .. } => ("store.lease.acquire.before", "store.lease.acquire.after"),
            LeaseCommand::Renew { .. } => ("store.lease.renew.before", "store.lease.renew.after"),
            LeaseCommand::Release { .. } => ("store.lease.release.before", "store.lease.release.after"),
        };
        fault::point(before);
        let reply = self.0.engine.submit(Command::Lease(command)).await?;
        fault::point(after);
        match reply {
            Reply::Lease(reply) => Ok(reply),
            _ => Err(Error::Closed),
        }
    }

    /// Forgets the history up to a revision, now. Retention does this by itself.
    pub async fn compact(&self, through: Revision) -> Result<(), Error> {
        retention::compact(&self.0, through).await
    }

    /// Looks at every row, and says what does not fit together.
    pub async fn check(&self) -> Result<check::Report, Error> {
        check::check(&self.0).await
    }

    /// Writes a consistent copy to a file that must not exist, while others go on. SQLite only.
    pub async fn backup(&self, file: impl Into<Utf8PathBuf>) -> Result<(), Error> {
        self.0.engine.backup(file.into()).await
    }

    /// Finishes what was submitted and lets go of the database. Later calls answer [`Error::Closed`].
    pub async fn close(&self) {
        self.0.engine.close().await;
        if let Err(stuck) = self.0.tasks.drain(CLOSE).await {
            tracing::error!(error = %stuck, "the store did not close in time");
        }
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }
}

impl Version {
    /// As it is stored.
    fn into_document(self) -> Document {
        let Self { key, revision, etag, body, expires_at } = self;
        let expires_at = expires_at.and_then(|at| jiff::Timestamp::from_microsecond(at).ok());
        Document {
            container: key.container,
            partition: key.partition,
            id: key.id,
            etag,
            revision,
            expires_at,
            body,
        }
    }
}

impl Inner {
    pub(crate) fn open_version(&self, mut version: Version) -> Result<Document, Error> {
        // A partition's feed also shows containers that this program does not know; it has no secrets of theirs to open.
        if let Ok(declared) = self.catalog.prepared(&version.key.container) {
            version.body = self.open_body(declared, &version.key, version.body)?;
        }
        Ok(version.into_document())
    }

    /// A query as engines take it.
    fn list(&self, query: Query) -> Result<List, Error> {
        let declared = self.catalog.prepared(query.container.name())?;
        let matching = match query.matching {
            Some((index, value)) => Some((declared.index(&index)?, value)),
            None => None,
        };
        Ok(List {
            container: declared.name.clone(),
            partition: query.partition,
            prefix: query.prefix,
            matching,
            // One more tells whether there is a next page.
            limit: query.limit + 1,
            at: query.from.as_ref().map(|from| from.revision).or(query.at),
            behind: query.from.map(|from| (from.partition, from.id)),
        })
    }

    fn open_body(&self, declared: &Declared, key: &Key, body: Arc<str>) -> Result<Arc<str>, Error> {
        self.with_keys(|keyring| seal::open(declared, key, body.clone(), keyring))
    }

    /// A key this process does not know may have been added by another since.
    fn with_keys<T>(&self, open: impl Fn(Option<&Keyring>) -> Result<T, Error>) -> Result<T, Error> {
        match (open(self.keyring.as_ref()), &self.keyring) {
            (Err(Error::Sealing { .. }), Some(keyring)) => {
                keyring.reload()?;
                open(Some(keyring))
            }
            (opened, _) => opened,
        }
    }

    fn prepare(&self, transaction: &Transaction) -> Result<Prepared, Error> {
        let mut named = HashSet::new();
        let mut operations = Vec::with_capacity(transaction.operations.len());
        for operation in &transaction.operations {
            let prepared = self.prepare_operation(&transaction.partition, operation)?;
            if !named.insert(prepared.key.clone()) {
                return Err(Error::Invalid {
                    what: "transaction".to_owned(),
                    problem: format!("it names `{}` in `{}` twice", operation.id, operation.container.name()),
                });
            }
            operations.push(prepared);
        }
        Ok(Prepared { operations, fences: transaction.fences.clone() })
    }

    fn prepare_content(
        &self,
        declared: &Declared,
        key: &Key,
        body: &Body,
        time_to_live: Option<Duration>,
    ) -> Result<Content, Error> {
        let time_to_live =
            time_to_live.map(|duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX));
        let written;
        let text = match body {
            Body::Text(text) => text.get(),
            Body::Value(body) => {
                written = zeroize::Zeroizing::new(body.to_string());
                written.as_str()
            }
        };
        if !declared.has_indexes() && !declared.has_secrets() {
            return Ok(Content { body: text.into(), sealing_key: None, time_to_live, entries: Vec::new() });
        }
        // A text that was handed in is JSON already, and so is what was just written.
        let mut outline = Outline::Text(text);
        let entries = declared.entries(&mut outline)?;
        let (body, sealing_key) = seal::seal(declared, key, &mut outline, self.keyring.as_ref())?;
        Ok(Content { body, sealing_key, time_to_live, entries })
    }

    fn prepare_operation(
        &self,
        partition: &Partition,
        operation: &Operation,
    ) -> Result<PreparedOperation, Error> {
        let declared = self.catalog.prepared(operation.container.name())?;
        let key =
            Key { container: declared.name.clone(), partition: partition.clone(), id: operation.id.clone() };
        let action = match &operation.action {
            Action::Delete => PreparedAction::Delete,
            Action::Check => PreparedAction::Check,
            Action::Put { body, time_to_live } => {
                PreparedAction::Put(self.prepare_content(declared, &key, body, *time_to_live)?)
            }
        };
        let guard = Guard::Precondition(operation.precondition.clone());
        Ok(PreparedOperation { key, indexed: declared.has_indexes(), guard, action })
    }
}
