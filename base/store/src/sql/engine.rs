//! The engine itself: a pool that reads, and a task that commits.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use camino::Utf8PathBuf;
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use sqlx::pool::PoolConnection;

use super::{Database, Place, SHARED, backup, classify, integrity, now, read};
use crate::at_hand::AtHand;
use crate::committer::Committer;
use crate::container::Specification;
use crate::engine::{
    Changed, Command, Due, Engine, Head, Position, Read, Reply, Scanned, Scope, State, Version,
};
use crate::query::List;
use crate::transaction::Key;
use crate::{DocumentId, Error, Revision};

#[derive(Debug)]
pub(crate) struct SqlEngine {
    place: Place,
    readers: sqlx::Pool<Database>,
    /// None once closed, or if opened only to look.
    committer: RwLock<Option<Arc<Committer>>>,
    /// The newest catalogue that this opening knows.
    generation: Arc<AtomicI64>,
    /// None if others may write.
    at_hand: Option<AtHand>,
}

impl SqlEngine {
    pub(super) fn new(
        place: Place,
        readers: sqlx::Pool<Database>,
        committer: Option<Committer>,
        generation: Arc<AtomicI64>,
        at_hand: Option<AtHand>,
    ) -> Self {
        Self { place, readers, committer: RwLock::new(committer.map(Arc::new)), generation, at_hand }
    }

    fn at_hand(&self) -> Option<&AtHand> {
        self.at_hand.as_ref().filter(|_| !self.readers.is_closed())
    }

    async fn reader(&self) -> Result<PoolConnection<Database>, Error> {
        self.readers.acquire().await.map_err(self.failed("opened a reading connection"))
    }

    async fn read(&self, key: &Key, at: Option<Revision>) -> Result<Read<Option<Version>>, Error> {
        read::read(&mut *self.reader().await?, key, at).await.map_err(self.failed("read a document"))
    }

    fn failed(&self, action: &'static str) -> impl Fn(sqlx::Error) -> Error {
        move |error| classify(&self.place, action, error)
    }
}

impl Engine for SqlEngine {
    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Reply, Error>> {
        let committer = self.committer.read().unwrap_or_else(PoisonError::into_inner).as_ref().cloned();
        async move { committer.ok_or(Error::Closed)?.submit(command).await }.boxed()
    }

    fn present(&self, key: Key) -> BoxFuture<'_, Result<Option<Version>, Error>> {
        let ticket = match self.at_hand().map(|at_hand| (&at_hand.present, at_hand.present.find(&key))) {
            Some((_, Ok(version))) => return ready(Ok(Some(version))).boxed(),
            Some((present, Err(ticket))) => ticket.map(|ticket| (present, ticket)),
            None => None,
        };
        async move {
            let found = self.read(&key, None).await?.found;
            if let (Some((present, ticket)), Some(version)) = (ticket, &found) {
                present.keep(ticket, version);
            }
            Ok(found)
        }
        .boxed()
    }

    fn past(&self, key: Key, at: Revision) -> BoxFuture<'_, Result<Read<Option<Version>>, Error>> {
        async move { self.read(&key, Some(at)).await }.boxed()
    }

    fn list(&self, list: List) -> BoxFuture<'_, Result<Read<Vec<Version>>, Error>> {
        async move {
            read::list(&mut *self.reader().await?, &list).await.map_err(self.failed("listed documents"))
        }
        .boxed()
    }

    fn ids(&self, list: List) -> BoxFuture<'_, Result<Read<Vec<DocumentId>>, Error>> {
        async move { read::ids(&mut *self.reader().await?, &list).await.map_err(self.failed("listed ids")) }
            .boxed()
    }

    fn changes(
        &self,
        scope: Scope,
        after: Revision,
        limit: usize,
    ) -> BoxFuture<'_, Result<Read<Vec<Changed>>, Error>> {
        let recent = self.at_hand().and_then(|at_hand| at_hand.recent.changes(&scope, after, limit));
        if let Some(recent) = recent {
            return ready(Ok(recent)).boxed();
        }
        async move {
            let found = read::changes(&mut *self.reader().await?, &scope, after, limit).await;
            found.map_err(self.failed("read the feed"))
        }
        .boxed()
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Due, Error>> {
        async move {
            let mut connection = self.reader().await?;
            let failed = self.failed("looked for expired documents");
            let now = now(&self.place, &mut connection).await.map_err(&failed)?;
            read::due(&mut connection, now, limit).await.map_err(&failed)
        }
        .boxed()
    }

    fn scan(&self, after: Position, limit: usize) -> BoxFuture<'_, Result<Vec<Scanned>, Error>> {
        async move {
            read::scan(&mut *self.reader().await?, after, limit)
                .await
                .map_err(self.failed("scanned versions"))
        }
        .boxed()
    }

    fn heads(&self, behind: Option<Key>, limit: usize) -> BoxFuture<'_, Result<Vec<(Key, Head)>, Error>> {
        async move {
            let found = read::heads(&mut *self.reader().await?, behind.as_ref(), limit).await;
            found.map_err(self.failed("scanned heads"))
        }
        .boxed()
    }

    fn state(&self) -> BoxFuture<'_, Result<State, Error>> {
        if let Some(state) = self.at_hand().and_then(|at_hand| at_hand.recent.state()) {
            return ready(Ok(state)).boxed();
        }
        async move { read::state(&mut *self.reader().await?).await.map_err(self.failed("read its state")) }
            .boxed()
    }

    fn catalog(&self) -> BoxFuture<'_, Result<Vec<(Specification, bool)>, Error>> {
        async move {
            read::catalog(&mut *self.reader().await?).await.map_err(self.failed("read its catalogue"))
        }
        .boxed()
    }

    fn is_shared(&self) -> bool {
        SHARED
    }

    fn adopt(&self, generation: i64) {
        self.generation.store(generation, Ordering::Release);
    }

    fn integrity(&self) -> BoxFuture<'_, Result<Vec<String>, Error>> {
        async move { integrity(&mut *self.reader().await?).await.map_err(self.failed("checked its pages")) }
            .boxed()
    }

    fn backup(&self, file: Utf8PathBuf) -> BoxFuture<'_, Result<(), Error>> {
        async move { backup(&self.place, &file).await }.boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            // First those who read: on SQLite it is the last connection that folds the log into the file.
            self.readers.close().await;
            // With the last handle gone, the committing task finishes its queue and ends.
            drop(self.committer.write().unwrap_or_else(PoisonError::into_inner).take());
        }
        .boxed()
    }
}
