//! The rows a batch touches.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use sqlx::{QueryBuilder, Row as _};

use super::{Connection, Database, OPEN_ENTRIES};
use crate::container::Entry;
use crate::engine::Head;
use crate::lease::LeaseRow;
use crate::plan::Touched;
use crate::sql::runs;
use crate::transaction::Key;
use crate::{DocumentId, Etag, LeaseName, Partition, Revision};

pub(super) struct Loaded {
    pub(super) heads: HashMap<Key, Head>,
    pub(super) leases: HashMap<LeaseName, LeaseRow>,
    pub(super) retired_keys: HashSet<String>,
}

/// `begin` is the statement that begins the transaction, if that is still to be done.
pub(super) async fn load(
    connection: &mut Connection,
    touched: &Touched,
    begin: Option<&'static str>,
) -> Result<Loaded, sqlx::Error> {
    let mut heads = load_heads(connection, &touched.keys, begin).await?;
    load_entries(connection, &touched.indexed, &mut heads).await?;
    let leases = load_leases(connection, &touched.leases).await?;
    let retired_keys = if touched.seals { load_retired_keys(connection).await? } else { HashSet::new() };
    Ok(Loaded { heads, leases, retired_keys })
}

async fn load_heads(
    connection: &mut Connection,
    keys: &BTreeSet<Key>,
    mut begin: Option<&'static str>,
) -> Result<HashMap<Key, Head>, sqlx::Error> {
    let keys: Vec<&Key> = keys.iter().collect();
    let mut heads = HashMap::with_capacity(keys.len());
    for run in runs(&keys) {
        for row in heads_statement(run, begin.take()).build().fetch_all(&mut *connection).await? {
            heads.insert(key(&row)?, head(&row)?);
        }
    }
    if let Some(begin) = begin {
        sqlx::query(begin).execute(connection).await?;
    }
    Ok(heads)
}

/// Adds what the indexes have to heads that were loaded.
pub(super) async fn load_entries(
    connection: &mut Connection,
    keys: &BTreeSet<Key>,
    heads: &mut HashMap<Key, Head>,
) -> Result<(), sqlx::Error> {
    let keys: Vec<&Key> = keys.iter().filter(|key| heads.contains_key(key)).collect();
    for run in runs(&keys) {
        for row in entries_statement(run).build().fetch_all(&mut *connection).await? {
            let entry = Entry { index: row.try_get::<&str, _>("name")?.into(), value: row.try_get("value")? };
            let since = Revision::from_sql(row.try_get("since")?);
            if let Some(head) = heads.get_mut(&key(&row)?) {
                head.entries.push((entry, since));
            }
        }
    }
    Ok(())
}

pub(super) fn heads_statement(keys: &[&Key], begin: Option<&'static str>) -> QueryBuilder<Database> {
    let mut query = QueryBuilder::<Database>::new("");
    if let Some(begin) = begin {
        query.push(begin).push("; ");
    }
    query.push("SELECT h.container, h.partition, h.id, h.revision, h.position, h.etag, h.expires_at FROM (");
    push_keys(&mut query, keys);
    query.push(
        ") AS wanted JOIN head h ON h.container = wanted.column1 AND h.partition = wanted.column2 \
         AND h.id = wanted.column3",
    );
    query
}

pub(super) fn entries_statement(keys: &[&Key]) -> QueryBuilder<Database> {
    let mut query = QueryBuilder::<Database>::new(
        "SELECT e.container, e.partition, e.id, e.name, e.value, e.since FROM (",
    );
    push_keys(&mut query, keys);
    query.push(") AS wanted ").push(OPEN_ENTRIES);
    query
}

async fn load_leases(
    connection: &mut Connection,
    names: &BTreeSet<LeaseName>,
) -> Result<HashMap<LeaseName, LeaseRow>, sqlx::Error> {
    let mut leases = HashMap::new();
    for name in names {
        let row = sqlx::query("SELECT holder, token, expires_at FROM lease WHERE name = $1")
            .bind(name.as_str())
            .fetch_optional(&mut *connection)
            .await?;
        if let Some(row) = row {
            let token = u64::try_from(row.try_get::<i64, _>("token")?).unwrap_or_default();
            let lease =
                LeaseRow { holder: row.try_get("holder")?, token, expires_at: row.try_get("expires_at")? };
            leases.insert(name.clone(), lease);
        }
    }
    Ok(leases)
}

async fn load_retired_keys(connection: &mut Connection) -> Result<HashSet<String>, sqlx::Error> {
    let rows = sqlx::query("SELECT id FROM retired_key").fetch_all(connection).await?;
    rows.iter().map(|row| row.try_get("id")).collect()
}

fn push_keys(query: &mut QueryBuilder<Database>, keys: &[&Key]) {
    query.push_values(keys, |mut row, key| {
        row.push_bind(key.container.as_ref()).push_bind(key.partition.as_str()).push_bind(key.id.as_str());
    });
}

/// The key columns of any row that has them.
pub(super) fn key(row: &<Database as sqlx::Database>::Row) -> Result<Key, sqlx::Error> {
    let undecodable = |error: crate::Error| sqlx::Error::Decode(Box::new(error));
    Ok(Key {
        container: Arc::from(row.try_get::<&str, _>("container")?),
        partition: Partition::try_new(row.try_get::<&str, _>("partition")?).map_err(undecodable)?,
        id: DocumentId::try_new(row.try_get::<&str, _>("id")?).map_err(undecodable)?,
    })
}

/// The columns of a head, without its entries.
pub(super) fn head(row: &<Database as sqlx::Database>::Row) -> Result<Head, sqlx::Error> {
    Ok(Head {
        revision: Revision::from_sql(row.try_get("revision")?),
        position: row.try_get("position")?,
        etag: row.try_get::<Option<&str>, _>("etag")?.map(Etag::from_text),
        expires_at: row.try_get("expires_at")?,
        entries: Vec::new(),
    })
}
