//! The connection that writes, and what happens when it breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sqlx::{Connection as _, PgConnection, Row as _};
use tokio::time::Instant;
use tokio_util::sync::DropGuard;
use tracing::{info, warn};

use super::address::Address;
use super::error::{classify, is_connection_lost, is_passing};
use super::listen::notice;
use super::load::load;
use super::maintain::maintain;
use super::open::connect;
use super::write::write;
use crate::committer::Batches;
use crate::engine::{Command, Maintenance, Reply, State};
use crate::plan::{Plan, Touched, World, plan};
use crate::wake::{Topic, Wakes};
use crate::{Error, Revision};

pub(super) struct Writer {
    pub(super) address: Address,
    pub(super) connection: Option<PgConnection>,
    pub(super) incarnation: u32,
    pub(super) wakes: Arc<Wakes>,
    pub(super) generation: Arc<AtomicI64>,
    /// Others' commits are listened for as long as there can be commits of our own.
    pub(super) _listening: DropGuard,
}

/// Why a batch was not carried out.
enum Failure {
    /// Nothing was written.
    Before(sqlx::Error),
    /// The commit was sent and not answered; this is what it would have done.
    During(sqlx::Error, Box<Plan>),
    /// Nothing was written, and trying again will not help.
    Refused(Error),
}

/// How long to look for a database that went away during a commit, before giving up on knowing.
const PATIENCE: Duration = Duration::from_secs(20);

impl Writer {
    async fn connection(&mut self) -> Result<&mut PgConnection, Error> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let mut connection = connect(&self.address).await?;
                // Most of what is large is sealed, and cannot be made smaller. PostgreSQL's own way to find that out takes a
                // third of all it does with such a document. A server that has no other says so, and keeps its own.
                let _ = sqlx::query("SET default_toast_compression = 'lz4'").execute(&mut connection).await;
                connection
            }
        };
        Ok(self.connection.insert(connection))
    }

    /// Ends whatever is open. What cannot be rolled back is closed, which comes to the same.
    async fn abandon(&mut self, lost: bool) {
        if let Some(mut connection) = self.connection.take()
            && !lost
            && sqlx::query("ROLLBACK").execute(&mut connection).await.is_ok()
        {
            self.connection = Some(connection);
        }
    }

    async fn batch(&mut self, commands: &[Command]) -> Result<Plan, Failure> {
        let (incarnation, expected) = (self.incarnation, self.generation.load(Ordering::Acquire));
        let (address, channel) = (self.address.to_string(), self.address.channel());
        let connection = self.connection().await.map_err(Failure::Refused)?;
        let (state, now) = begin(connection).await.map_err(Failure::Before)?;
        if state.generation > expected {
            return Err(Failure::Refused(Error::Superseded { database: address }));
        }
        let loaded = load(connection, &Touched::by(commands), None).await.map_err(Failure::Before)?;
        let world = World {
            state,
            now,
            incarnation,
            heads: loaded.heads,
            leases: loaded.leases,
            retired_keys: loaded.retired_keys,
        };
        let plan = plan(commands, world);
        write(connection, &plan, None).await.map_err(Failure::Before)?;
        let topics = Topic::of(&plan);
        if !topics.is_empty() {
            sqlx::query("SELECT pg_notify($1, $2)")
                .bind(channel)
                .bind(notice(plan.state.revision, &topics))
                .execute(&mut *connection)
                .await
                .map_err(Failure::Before)?;
        }
        match sqlx::query("COMMIT").execute(connection).await {
            Ok(_) => Ok(plan),
            Err(error) => Err(Failure::During(error, Box::new(plan))),
        }
    }

    /// Finds out whether a commit that was not answered took place.
    ///
    /// The old connection's server process may still be at it, so the store's row is locked first: that waits
    /// until it has ended one way or the other. Positions are never used twice by two openings with the same
    /// etag, so one row of the batch tells.
    async fn resolve(&mut self, error: sqlx::Error, plan: Plan) -> Result<Plan, Error> {
        warn!(%error, "the connection broke during a commit; finding out whether it was kept");
        let until = Instant::now() + PATIENCE;
        loop {
            match self.was_kept(&plan).await {
                Ok(true) => {
                    info!(revision = %plan.state.revision, "the commit was kept");
                    return Ok(plan);
                }
                Ok(false) => {
                    let problem = "the connection broke, and the commit was not kept".to_owned();
                    return Err(Error::Unavailable { problem, source: error.into() });
                }
                Err(_) if Instant::now() < until => tokio::time::sleep(Duration::from_millis(200)).await,
                Err(_) => return Err(Error::Uncertain { source: error.into() }),
            }
        }
    }

    async fn was_kept(&mut self, plan: &Plan) -> Result<bool, Error> {
        let connection = self.connection().await?;
        let kept = was_kept(connection, plan).await;
        let lost = kept.as_ref().is_err_and(is_connection_lost);
        self.abandon(lost).await;
        kept.map_err(|error| classify(&self.address, "looked for a commit", error))
    }
}

/// Begins a batch: takes the store's row, and the time after it was got.
async fn begin(connection: &mut PgConnection) -> Result<(State, i64), sqlx::Error> {
    sqlx::query("BEGIN").execute(&mut *connection).await?;
    let row = sqlx::query(
        "UPDATE store SET revision = revision RETURNING revision, position, compacted, generation, \
         (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now",
    )
    .fetch_one(connection)
    .await?;
    let state = State {
        revision: Revision::from_sql(row.try_get("revision")?),
        position: row.try_get("position")?,
        compacted: Revision::from_sql(row.try_get("compacted")?),
        generation: row.try_get("generation")?,
    };
    Ok((state, row.try_get("now")?))
}

async fn was_kept(connection: &mut PgConnection, plan: &Plan) -> Result<bool, sqlx::Error> {
    begin(connection).await?;
    let telling = plan.versions.iter().rev().find(|version| version.etag.is_some());
    if let Some(version) = telling.or_else(|| plan.versions.last()) {
        let row = sqlx::query(
            "SELECT etag, revision FROM version WHERE position = $1 AND container = $2 AND id = $3",
        )
        .bind(version.position)
        .bind(version.key.container.as_ref())
        .bind(version.key.id.as_str())
        .fetch_optional(connection)
        .await?;
        let Some(row) = row else { return Ok(false) };
        let etag: Option<String> = row.try_get("etag")?;
        let revision = Revision::from_sql(row.try_get("revision")?);
        return Ok(etag.as_deref() == version.etag.as_ref().map(|etag| etag.as_str())
            && revision == version.revision);
    }
    if let Some((name, lease)) = plan.leases.iter().next() {
        let row = sqlx::query("SELECT holder, token, expires_at FROM lease WHERE name = $1")
            .bind(name.as_str())
            .fetch_optional(connection)
            .await?;
        let Some(row) = row else { return Ok(false) };
        let same = row.try_get::<i64, _>("token")? == i64::try_from(lease.token).unwrap_or(i64::MAX)
            && row.try_get::<String, _>("holder")? == lease.holder
            && row.try_get::<i64, _>("expires_at")? == lease.expires_at;
        return Ok(same);
    }
    // It changed nothing, so it does not matter.
    Ok(true)
}

impl Batches for Writer {
    async fn execute(&mut self, commands: &[Command]) -> Result<Vec<Result<Reply, Error>>, Error> {
        // A connection that was idle may have been cut long ago, and a lock may pass: nothing was written, so
        // once more is safe. Further patience is the caller's.
        let mut again = true;
        let plan = loop {
            match self.batch(commands).await {
                Ok(plan) => break plan,
                Err(Failure::During(error, plan)) if is_connection_lost(&error) => {
                    self.abandon(true).await;
                    break self.resolve(error, *plan).await?;
                }
                Err(Failure::During(error, _)) => {
                    self.abandon(false).await;
                    return Err(classify(&self.address, "committed a batch", error));
                }
                Err(Failure::Refused(error)) => {
                    self.abandon(false).await;
                    return Err(error);
                }
                Err(Failure::Before(error)) => {
                    let lost = is_connection_lost(&error);
                    self.abandon(lost).await;
                    if !again || !(lost || is_passing(&error)) {
                        return Err(classify(&self.address, "wrote a batch", error));
                    }
                    again = false;
                }
            }
        };
        // Readers here need not wait for the notification. What has been *seen* is left to the notifications:
        // they come in commit order, and this commit may be ahead of another process's.
        self.wakes.wake(&Topic::of(&plan));
        Ok(plan.replies)
    }

    async fn maintain(&mut self, maintenance: &Maintenance) -> Result<Reply, Error> {
        let connection = self.connection().await?;
        let outcome = async {
            let (_, now) = begin(connection).await?;
            let reply = maintain(connection, maintenance, now).await?;
            // Every kind of maintenance may be repeated, so a commit in doubt is no more than an error.
            sqlx::query("COMMIT").execute(connection).await?;
            Ok(reply)
        }
        .await;
        match outcome {
            Ok(reply) => Ok(reply),
            Err(error) => {
                self.abandon(is_connection_lost(&error)).await;
                Err(classify(&self.address, "maintained the database", error))
            }
        }
    }

    async fn close(mut self) {
        if let Some(connection) = self.connection.take() {
            // An error here changes nothing: what was committed is committed.
            let _ = connection.close().await;
        }
    }
}
