//! Every way to look at the rows. Each is one statement, or one transaction, and so of one instant: the store's own row is
//! read together with what was asked for.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sqlx::{Connection as _, QueryBuilder, Row as _};

use super::load::{head, key, load_entries};
use super::{Connection, Database, HEAD_OF_ENTRY, SNAPSHOT};
use crate::container::Specification;
use crate::engine::{Changed, Due, Head, Position, Read, Scanned, Scope, State, Version};
use crate::name::LAST;
use crate::query::List;
use crate::transaction::Key;
use crate::{DocumentId, Etag, Revision};

type Row = <Database as sqlx::Database>::Row;

/// The store's row, named so that it can stand beside any other.
const STATE: &str = "s.revision AS store_revision, s.position AS store_position, \
                     s.compacted AS store_compacted, s.generation AS store_generation";

pub(super) async fn state(connection: &mut Connection) -> Result<State, sqlx::Error> {
    let mut query = QueryBuilder::<Database>::new("SELECT ");
    query.push(STATE).push(" FROM store s");
    of_row(&query.build().fetch_one(connection).await?)
}

pub(super) async fn read(
    connection: &mut Connection,
    wanted: &Key,
    at: Option<Revision>,
) -> Result<Read<Option<Version>>, sqlx::Error> {
    let row = read_statement(wanted, at).build().fetch_one(connection).await?;
    Ok(Read { state: of_row(&row)?, found: version(&row)? })
}

pub(super) fn read_statement(wanted: &Key, at: Option<Revision>) -> QueryBuilder<Database> {
    let mut query = QueryBuilder::<Database>::new("SELECT ");
    query.push(STATE);
    query.push(", v.container, v.partition, v.id, v.revision, v.etag, v.body, v.expires_at FROM store s ");
    query.push("LEFT JOIN head h ON h.container = ").push_bind(wanted.container.as_ref());
    query.push(" AND h.partition = ").push_bind(wanted.partition.as_str());
    query.push(" AND h.id = ").push_bind(wanted.id.as_str());
    query.push(" LEFT JOIN version v ON v.body IS NOT NULL AND v.position = ");
    match at {
        None => {
            query.push("h.position");
        }
        Some(at) => push_position(&mut query, at.to_sql()),
    }
    query
}

pub(super) async fn list(
    connection: &mut Connection,
    list: &List,
) -> Result<Read<Vec<Version>>, sqlx::Error> {
    let rows = list_statement(list).build().fetch_all(connection).await?;
    found(&rows, version)
}

pub(super) fn list_statement(list: &List) -> QueryBuilder<Database> {
    let at = list.at.map_or(i64::MAX, Revision::to_sql);
    let mut query = QueryBuilder::<Database>::new("SELECT ");
    query.push(STATE).push(
        ", d.* FROM store s LEFT JOIN (SELECT h.container, h.partition, h.id, v.revision, v.etag, v.body, v.expires_at ",
    );
    // The table that is gone through, in the order of the list.
    let walked = match &list.matching {
        None => {
            query.push("FROM head h");
            "h"
        }
        Some(_) => {
            query.push("FROM entry e ").push(HEAD_OF_ENTRY);
            "e"
        }
    };
    query.push(" JOIN version v ON v.position = ");
    push_position(&mut query, at);
    query.push(format_args!(" WHERE {walked}.container = ")).push_bind(list.container.as_ref());
    if let Some((index, value)) = &list.matching {
        query.push(" AND e.name = ").push_bind(index.as_ref());
        query.push(" AND e.value = ").push_bind(value.as_str());
        query.push(" AND e.since <= ").push_bind(at);
        query.push(" AND (e.until IS NULL OR e.until > ").push_bind(at).push(")");
    }
    if let Some(partition) = &list.partition {
        query.push(format_args!(" AND {walked}.partition = ")).push_bind(partition.as_str());
    }
    match (&list.behind, &list.partition) {
        (Some((_, id)), Some(_)) => {
            query.push(format_args!(" AND {walked}.id > ")).push_bind(id.as_str());
        }
        (Some((partition, id)), None) => {
            query
                .push(format_args!(" AND ({walked}.partition, {walked}.id) > ("))
                .push_bind(partition.as_str());
            query.push(", ").push_bind(id.as_str()).push(")");
        }
        (None, _) => {}
    }
    if !list.prefix.is_empty() {
        query.push(format_args!(" AND {walked}.id >= ")).push_bind(list.prefix.as_str());
        query.push(format_args!(" AND {walked}.id < ")).push_bind(format!("{}{LAST}", list.prefix));
    }
    query.push(format_args!(" AND v.body IS NOT NULL ORDER BY {walked}.partition, {walked}.id LIMIT "));
    query.push_bind(count(list.limit));
    query.push(") d ON true ORDER BY d.partition, d.id");
    query
}

pub(super) async fn ids(
    connection: &mut Connection,
    list: &List,
) -> Result<Read<Vec<DocumentId>>, sqlx::Error> {
    let rows = ids_statement(list).build().fetch_all(connection).await?;
    found(&rows, |row| {
        let id = row.try_get::<Option<&str>, _>("id")?.map(DocumentId::try_new);
        id.transpose().map_err(|error| sqlx::Error::Decode(Box::new(error)))
    })
}

/// As they are now: what is deleted has no etag, and no open entries.
pub(super) fn ids_statement(list: &List) -> QueryBuilder<Database> {
    let mut query = QueryBuilder::<Database>::new("SELECT ");
    query.push(STATE).push(", d.id FROM store s LEFT JOIN (SELECT h.partition, h.id FROM ");
    query.push(if list.matching.is_some() { "entry h" } else { "head h" });
    query.push(" WHERE h.container = ").push_bind(list.container.as_ref());
    match &list.matching {
        Some((index, value)) => {
            query.push(" AND h.name = ").push_bind(index.as_ref());
            query.push(" AND h.value = ").push_bind(value.as_str()).push(" AND h.until IS NULL");
        }
        None => {
            query.push(" AND h.etag IS NOT NULL");
        }
    }
    if let Some(partition) = &list.partition {
        query.push(" AND h.partition = ").push_bind(partition.as_str());
    }
    if !list.prefix.is_empty() {
        query.push(" AND h.id >= ").push_bind(list.prefix.as_str());
        query.push(" AND h.id < ").push_bind(format!("{}{LAST}", list.prefix));
    }
    query.push(" ORDER BY h.partition, h.id) d ON true ORDER BY d.partition, d.id");
    query
}

/// The position of the version of `h`'s document that was present at a revision: the newest, mostly, otherwise as
/// many steps back as it was changed since.
fn push_position(query: &mut QueryBuilder<Database>, at: i64) {
    query.push("CASE WHEN h.revision <= ").push_bind(at);
    query.push(
        " THEN h.position ELSE (WITH RECURSIVE past (position, revision, previous) AS (\
         SELECT o.position, o.revision, o.previous FROM version o WHERE o.position = h.position \
         UNION ALL SELECT o.position, o.revision, o.previous FROM past JOIN version o ON o.position = abs(past.previous) \
         WHERE past.revision > ",
    );
    query.push_bind(at).push(") SELECT past.position FROM past WHERE past.revision <= ").push_bind(at);
    query.push(") END");
}

pub(super) async fn changes(
    connection: &mut Connection,
    scope: &Scope,
    after: Revision,
    limit: usize,
) -> Result<Read<Vec<Changed>>, sqlx::Error> {
    let rows = changes_statement(scope, after, limit).build().fetch_all(connection).await?;
    found(&rows, changed)
}

pub(super) fn changes_statement(scope: &Scope, after: Revision, limit: usize) -> QueryBuilder<Database> {
    let (column, value) = match scope {
        Scope::Partition(partition) => ("partition", partition.as_str()),
        Scope::Container(container) => ("container", container.as_ref()),
    };
    let mut query = QueryBuilder::<Database>::new("SELECT ");
    query.push(STATE);
    query.push(
        ", v.container, v.partition, v.id, v.revision, v.expired, v.etag, v.body, v.expires_at, \
         p.revision AS former_revision, p.etag AS former_etag, p.body AS former_body, \
         p.expires_at AS former_expires_at FROM store s LEFT JOIN version v ON v.",
    );
    query.push(column).push(" = ").push_bind(value);
    query.push(" AND v.revision > ").push_bind(after.to_sql());
    // Up to the revision of the last row within the limit: a transaction is never cut in two.
    query.push(" AND v.revision <= (SELECT max(w.revision) FROM (SELECT revision FROM version WHERE ");
    query.push(column).push(" = ").push_bind(value);
    query.push(" AND revision > ").push_bind(after.to_sql());
    query.push(" ORDER BY revision LIMIT ").push_bind(count(limit)).push(") w)");
    query.push(" LEFT JOIN version p ON p.position = v.previous ORDER BY v.revision, v.position");
    query
}

pub(super) async fn due(connection: &mut Connection, now: i64, limit: usize) -> Result<Due, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT container, partition, id FROM head WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2",
    )
    .bind(now)
    .bind(count(limit))
    .fetch_all(&mut *connection)
    .await?;
    let next: Option<i64> = sqlx::query("SELECT min(expires_at) AS next FROM head WHERE expires_at > $1")
        .bind(now)
        .fetch_one(connection)
        .await?
        .try_get("next")?;
    Ok(Due { keys: rows.iter().map(key).collect::<Result<_, _>>()?, next: next.map(|next| next - now) })
}

pub(super) async fn scan(
    connection: &mut Connection,
    after: Position,
    limit: usize,
) -> Result<Vec<Scanned>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT position, container, partition, id, revision, previous, etag, body, sealing_key FROM version \
         WHERE position > $1 ORDER BY position LIMIT $2",
    )
    .bind(after)
    .bind(count(limit))
    .fetch_all(connection)
    .await?;
    rows.iter().map(scanned).collect()
}

pub(super) async fn heads(
    connection: &mut Connection,
    behind: Option<&Key>,
    limit: usize,
) -> Result<Vec<(Key, Head)>, sqlx::Error> {
    let mut snapshot = connection.begin_with(SNAPSHOT).await?;
    let rows = sqlx::query(
        "SELECT container, partition, id, revision, position, etag, expires_at FROM head \
         WHERE (container, partition, id) > ($1, $2, $3) ORDER BY container, partition, id LIMIT $4",
    )
    .bind(behind.map_or("", |key| key.container.as_ref()))
    .bind(behind.map_or("", |key| key.partition.as_str()))
    .bind(behind.map_or("", |key| key.id.as_str()))
    .bind(count(limit))
    .fetch_all(&mut *snapshot)
    .await?;
    let mut heads =
        rows.iter().map(|row| Ok((key(row)?, head(row)?))).collect::<Result<HashMap<_, _>, sqlx::Error>>()?;
    let keys: BTreeSet<Key> = heads.keys().cloned().collect();
    load_entries(&mut snapshot, &keys, &mut heads).await?;
    snapshot.commit().await?;
    Ok(keys.into_iter().filter_map(|key| heads.remove_entry(&key)).collect())
}

pub(super) async fn catalog(connection: &mut Connection) -> Result<Vec<(Specification, bool)>, sqlx::Error> {
    let rows =
        sqlx::query("SELECT specification, ready FROM container ORDER BY name").fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            let specification = serde_json::from_str(row.try_get("specification")?)
                .map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
            Ok((specification, row.try_get::<i64, _>("ready")? != 0))
        })
        .collect()
}

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn of_row(row: &Row) -> Result<State, sqlx::Error> {
    Ok(State {
        revision: Revision::from_sql(row.try_get("store_revision")?),
        position: row.try_get("store_position")?,
        compacted: Revision::from_sql(row.try_get("store_compacted")?),
        generation: row.try_get("store_generation")?,
    })
}

/// The rows that are more than the store's own.
fn found<T>(
    rows: &[Row],
    decode: impl Fn(&Row) -> Result<Option<T>, sqlx::Error>,
) -> Result<Read<Vec<T>>, sqlx::Error> {
    let first = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let found = rows.iter().filter_map(|row| decode(row).transpose()).collect::<Result<_, _>>()?;
    Ok(Read { state: of_row(first)?, found })
}

fn version(row: &Row) -> Result<Option<Version>, sqlx::Error> {
    let Some(body) = row.try_get::<Option<&str>, _>("body")? else { return Ok(None) };
    Ok(Some(Version {
        key: key(row)?,
        revision: Revision::from_sql(row.try_get("revision")?),
        etag: Etag::from_text(row.try_get("etag")?),
        body: body.into(),
        expires_at: row.try_get("expires_at")?,
    }))
}

fn changed(row: &Row) -> Result<Option<Changed>, sqlx::Error> {
    let Some(revision) = row.try_get::<Option<i64>, _>("revision")? else { return Ok(None) };
    let key = key(row)?;
    let before = match row.try_get::<Option<&str>, _>("former_body")? {
        None => None,
        Some(body) => Some(Version {
            key: key.clone(),
            revision: Revision::from_sql(row.try_get("former_revision")?),
            etag: Etag::from_text(row.try_get("former_etag")?),
            body: body.into(),
            expires_at: row.try_get("former_expires_at")?,
        }),
    };
    Ok(Some(Changed {
        key,
        revision: Revision::from_sql(revision),
        expired: row.try_get::<i64, _>("expired")? != 0,
        before,
        after: version(row)?,
    }))
}

fn scanned(row: &Row) -> Result<Scanned, sqlx::Error> {
    Ok(Scanned {
        position: row.try_get("position")?,
        key: key(row)?,
        revision: Revision::from_sql(row.try_get("revision")?),
        previous: row.try_get("previous")?,
        etag: row.try_get::<Option<&str>, _>("etag")?.map(Etag::from_text),
        body: row.try_get::<Option<&str>, _>("body")?.map(Arc::from),
        sealing_key: row.try_get("sealing_key")?,
    })
}
