//! Changes that no transaction makes, within a transaction that the engine begins and ends.

use sqlx::Row as _;

use super::Connection;
use super::read::state;
use super::write::open_entries;
use crate::Revision;
use crate::container::Specification;
use crate::engine::{Maintenance, Reply};
use crate::plan::OpenEntry;

pub(super) async fn maintain(
    connection: &mut Connection,
    maintenance: &Maintenance,
    now: i64,
) -> Result<Reply, sqlx::Error> {
    match maintenance {
        Maintenance::Mark { horizon } => return mark(connection, now, now.saturating_sub(*horizon)).await,
        Maintenance::Compact { through } => compact(connection, *through).await?,
        Maintenance::Sweep { limit } => return sweep(connection, *limit).await,
        Maintenance::Declare { specification } => declare(connection, specification).await?,
        Maintenance::Declared { specification } => {
            sqlx::query("UPDATE container SET specification = $2, ready = 1 WHERE name = $1")
                .bind(specification.name.as_str())
                .bind(text(specification)?)
                .execute(connection)
                .await?;
        }
        Maintenance::Reindex { rows } => {
            let opened: Vec<OpenEntry> = rows
                .iter()
                .flat_map(|(key, since, entries)| {
                    entries.iter().map(|entry| OpenEntry {
                        key: key.clone(),
                        entry: entry.clone(),
                        since: *since,
                    })
                })
                .collect();
            open_entries(connection, &opened.iter().map(|open| (open, &None)).collect::<Vec<_>>()).await?;
        }
        Maintenance::Reseal { rows } => {
            for (position, body, sealing_key) in rows {
                sqlx::query("UPDATE version SET body = $1, sealing_key = $2 WHERE position = $3")
                    .bind(body.as_ref())
                    .bind(sealing_key.as_deref())
                    .bind(*position)
                    .execute(&mut *connection)
                    .await?;
            }
        }
        Maintenance::RetireKey { id } => {
            sqlx::query("INSERT INTO retired_key (id) VALUES ($1) ON CONFLICT DO NOTHING")
                .bind(id.as_str())
                .execute(connection)
                .await?;
        }
    }
    Ok(Reply::Done)
}

async fn mark(connection: &mut Connection, now: i64, before: i64) -> Result<Reply, sqlx::Error> {
    // SQLite would take ON for the condition of a join, were it not for the WHERE.
    sqlx::query(
        "INSERT INTO mark (revision, at) SELECT revision, $1 FROM store WHERE true ON CONFLICT DO NOTHING",
    )
    .bind(now)
    .execute(&mut *connection)
    .await?;
    let newest: Option<i64> = sqlx::query("SELECT max(revision) AS newest FROM mark WHERE at <= $1")
        .bind(before)
        .fetch_one(connection)
        .await?
        .try_get("newest")?;
    Ok(Reply::Marked(newest.map(Revision::from_sql)))
}

/// From here on nobody can read further back; [`sweep`] then deletes what nobody can read.
async fn compact(connection: &mut Connection, through: Revision) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE store SET compacted = CASE WHEN $1 < revision THEN $1 ELSE revision END WHERE compacted < $1",
    )
    .bind(through.to_sql())
    .execute(&mut *connection)
    .await?;
    sqlx::query("DELETE FROM mark WHERE revision < (SELECT compacted FROM store)")
        .execute(connection)
        .await
        .map(drop)
}

/// A stretch of positions at a time: what a version in it replaced goes, and it goes itself if it is a
/// tombstone.
async fn sweep(connection: &mut Connection, limit: usize) -> Result<Reply, sqlx::Error> {
    let row = sqlx::query("SELECT swept, compacted FROM store").fetch_one(&mut *connection).await?;
    let (swept, compacted): (i64, i64) = (row.try_get("swept")?, row.try_get("compacted")?);
    let through: Option<i64> = sqlx::query(
        "SELECT max(position) AS through FROM \
         (SELECT position, revision FROM version WHERE position > $1 ORDER BY position LIMIT $2) w \
         WHERE revision <= $3",
    )
    .bind(swept)
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .bind(compacted)
    .fetch_one(&mut *connection)
    .await?
    .try_get("through")?;
    let Some(through) = through else { return Ok(Reply::Swept { more: false }) };
    for statement in [
        "DELETE FROM head WHERE etag IS NULL AND position <= $2 AND (container, partition, id) IN \
         (SELECT container, partition, id FROM version WHERE position > $1 AND position <= $2 AND body IS NULL)",
        "DELETE FROM version WHERE position IN \
         (SELECT previous FROM version WHERE position > $1 AND position <= $2 AND previous IS NOT NULL)",
        "DELETE FROM version WHERE position > $1 AND position <= $2 AND body IS NULL",
    ] {
        sqlx::query(statement).bind(swept).bind(through).execute(&mut *connection).await?;
    }
    sqlx::query("DELETE FROM entry WHERE until <= $1").bind(compacted).execute(&mut *connection).await?;
    sqlx::query("UPDATE store SET swept = $1").bind(through).execute(connection).await?;
    Ok(Reply::Swept { more: true })
}

async fn declare(connection: &mut Connection, specification: &Specification) -> Result<(), sqlx::Error> {
    let text = text(specification)?;
    let known = sqlx::query("UPDATE container SET specification = $2, ready = 0 WHERE name = $1")
        .bind(specification.name.as_str())
        .bind(text.as_str())
        .execute(&mut *connection)
        .await?
        .rows_affected();
    if known == 0 {
        sqlx::query("INSERT INTO container (name, specification, ready) VALUES ($1, $2, 0)")
            .bind(specification.name.as_str())
            .bind(text.as_str())
            .execute(connection)
            .await?;
        return Ok(());
    }
    sqlx::query("DELETE FROM entry WHERE container = $1")
        .bind(specification.name.as_str())
        .execute(&mut *connection)
        .await?;
    // The new indexes know nothing of the past, so the past cannot be listed any more; and whoever has the
    // store open would write without them.
    let now = state(connection).await?.revision;
    compact(connection, now).await?;
    sqlx::query("UPDATE store SET generation = generation + 1").execute(connection).await.map(drop)
}

fn text(specification: &Specification) -> Result<String, sqlx::Error> {
    serde_json::to_string(specification).map_err(|error| sqlx::Error::Encode(Box::new(error)))
}
