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
use crate::at_hand::AtHand;
use crate::committer::Batches;
use crate::engine::{Command, Maintenance, Reply, State};
use crate::plan::{Plan, Touched, World, plan};
use crate::wake::{Topic, Wakes};
use crate::{Error, Revision};

const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";

pub(super) struct Writer {
    pub(super) place: Place,
    /// Let go last, after the connection is closed.
    pub(super) lock: Lock,
    pub(super) connection: SqliteConnection,
    pub(super) incarnation: u32,
    pub(super) wakes: Arc<Wakes>,
    pub(super) generation: Arc<AtomicI64>,
    pub(super) at_hand: AtHand,
    /// Nobody else writes, so the store's row need not be read for every batch. None after anything unusual.
    pub(super) state: Option<State>,
}

/// Why a batch did not take place.
enum Failure {
    Refused(Error),
    Database { action: &'static str, error: sqlx::Error },
}

impl Writer {
    /// Carries out a batch, transaction and all.
    async fn batch(&mut self, commands: &[Command]) -> Result<Plan, Failure> {
        let failed = |action| move |error| Failure::Database { action, error };
        let (state, begin) = match self.state.take() {
            Some(state) => (state, Some(BEGIN)),
            None => {
                sqlx::query(BEGIN).execute(&mut self.connection).await.map_err(failed("began a batch"))?;
                (state(&mut self.connection).await.map_err(failed("read its state"))?, None)
            }
        };
        if state.generation > self.generation.load(Ordering::Acquire) {
            return Err(Failure::Refused(Error::Superseded { database: self.place.path.to_string() }));
        }
        let loaded = load(&mut self.connection, &Touched::by(commands), begin)
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
        let committing = self.at_hand.committing(&plan);
        write(&mut self.connection, &plan, Some(COMMIT)).await.map_err(failed("wrote a batch"))?;
        committing.done(state, &plan);
        Ok(plan)
    }

    async fn maintained(&mut self, maintenance: &Maintenance) -> Result<Reply, sqlx::Error> {
        sqlx::query(BEGIN).execute(&mut self.connection).await?;
        let now = self.place.clock.now().as_microsecond();
        let reply = maintain(&mut self.connection, maintenance, now).await?;
        sqlx::query(COMMIT).execute(&mut self.connection).await?;
        Ok(reply)
    }

    /// Sees to it that nothing is open, and says what has become of a transaction that failed.
    async fn abandon(&mut self, failure: Failure) -> Error {
        let open = sqlx::query("ROLLBACK").execute(&mut self.connection).await.is_ok();
        match failure {
            Failure::Refused(error) => error,
            // What can be rolled back was not committed.
            Failure::Database { action, error } if open => classify(&self.place, action, error),
            Failure::Database { error, .. } => classify_commit(&self.place.path, error),
        }
    }
}

impl Batches for Writer {
    async fn execute(&mut self, commands: &[Command]) -> Result<Vec<Result<Reply, Error>>, Error> {
        let plan = match self.batch(commands).await {
            Ok(plan) => plan,
            Err(failure) => return Err(self.abandon(failure).await),
        };
        self.state = Some(plan.state);
        let (topics, revision): (_, Revision) = (Topic::of(&plan), plan.state.revision);
        self.wakes.wake(&topics);
        self.wakes.saw(revision);
        Ok(plan.replies)
    }

    async fn maintain(&mut self, maintenance: &Maintenance) -> Result<Reply, Error> {
        self.state = None;
        let _changing = self.at_hand.maintaining(maintenance);
        match self.maintained(maintenance).await {
            Ok(reply) => Ok(reply),
            Err(error) => {
                let action = "maintained the database";
                Err(self.abandon(Failure::Database { action, error }).await)
            }
        }
    }

    async fn close(self) {
        // An error here changes nothing: what was committed is in the log.
        let _ = self.connection.close().await;
        drop(self.lock);
    }
}
