//! The one connection that writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use sqlx::{Connection as _, SqliteConnection};

use super::error::classify_commit;
use super::load::load;
use super::lock::Lock;
use super::maintain::maintain;
use super::read::state;
use super::write::write;
use super::{Place, classify};
use crate::committer::Batches;
use crate::engine::{Command, Maintenance, Reply, State};
use crate::plan::{Plan, Touched, World, plan};
use crate::present::Present;
use crate::wake::{Topic, Wakes};
use crate::{Error, Revision};

pub(super) struct Writer {
    pub(super) place: Place,
    /// Let go last, after the connection is closed.
    pub(super) lock: Lock,
    pub(super) connection: SqliteConnection,
    pub(super) incarnation: u32,
    pub(super) wakes: Arc<Wakes>,
    pub(super) generation: Arc<AtomicI64>,
    pub(super) present: Arc<Present>,
    /// Nobody else writes, so the store's row need not be read for every batch. None after anything unusual.
    pub(super) state: Option<State>,
}

impl Writer {
    async fn batch(&mut self, commands: &[Command]) -> Result<Plan, Error> {
        let place = self.place.clone();
        let failed = |action| {
            let place = &place;
            move |error| classify(place, action, error)
        };
        let state = match self.state.take() {
            Some(state) => state,
            None => state(&mut self.connection).await.map_err(failed("read its state"))?,
        };
        if state.generation > self.generation.load(Ordering::Acquire) {
            return Err(Error::Superseded { database: self.place.path.to_string() });
        }
        let loaded = load(&mut self.connection, &Touched::by(commands))
            .await
            .map_err(failed("loaded what a batch touches"))?;
        let world = World {
            state,
            now: self.place.clock.now().as_microsecond(),
            incarnation: self.incarnation,
            heads: loaded.heads,
            leases: loaded.leases,
            retired_keys: loaded.retired_keys,
        };
        let plan = plan(commands, world);
        write(&mut self.connection, &plan).await.map_err(failed("wrote a batch"))?;
        Ok(plan)
    }

    async fn begin(&mut self) -> Result<(), Error> {
        let begun = sqlx::query("BEGIN IMMEDIATE").execute(&mut self.connection).await;
        begun.map(drop).map_err(|error| classify(&self.place, "began a batch", error))
    }

    async fn end<T>(&mut self, outcome: Result<T, Error>) -> Result<T, Error> {
        let outcome = match outcome {
            Ok(value) => sqlx::query("COMMIT")
                .execute(&mut self.connection)
                .await
                .map(|_| value)
                .map_err(|error| classify_commit(&self.place.path, error)),
            Err(error) => Err(error),
        };
        if outcome.is_err() {
            // After some errors SQLite has rolled back already, and says so; either way nothing is open.
            let _ = sqlx::query("ROLLBACK").execute(&mut self.connection).await;
        }
        outcome
    }
}

impl Batches for Writer {
    async fn execute(&mut self, commands: &[Command]) -> Result<Vec<Result<Reply, Error>>, Error> {
        self.begin().await?;
        let outcome = self.batch(commands).await;
        let changed = outcome.iter().flat_map(|plan| &plan.versions).map(|version| &version.key);
        let changing = self.present.changing(changed);
        let plan = self.end(outcome).await?;
        drop(changing);
        self.state = Some(plan.state);
        let (topics, revision): (_, Revision) = (Topic::of(&plan), plan.state.revision);
        self.wakes.wake(&topics);
        self.wakes.saw(revision);
        Ok(plan.replies)
    }

    async fn maintain(&mut self, maintenance: &Maintenance) -> Result<Reply, Error> {
        self.begin().await?;
        self.state = None;
        let now = self.place.clock.now().as_microsecond();
        let outcome = maintain(&mut self.connection, maintenance, now)
            .await
            .map_err(|error| classify(&self.place, "maintained the database", error));
        // What else is maintained leaves the present documents as they are.
        let reseals = matches!(maintenance, Maintenance::Reseal { .. });
        let _changing = reseals.then(|| self.present.changing_all());
        self.end(outcome).await
    }

    async fn close(self) {
        // An error here changes nothing: what was committed is in the log.
        let _ = self.connection.close().await;
        drop(self.lock);
    }
}
