//! Carrying out a plan, within a transaction that the engine begins and ends.

use sqlx::QueryBuilder;

use super::{Connection, Database, Script};
use crate::engine::Head;
use crate::lease::LeaseRow;
use crate::plan::{NewVersion, OpenEntry, Plan};
use crate::sql::runs;
use crate::transaction::Key;
use crate::{LeaseName, Revision};

/// Writes all of it. `end` is the statement that ends the transaction, if it can come with the last ones.
pub(super) async fn write(
    connection: &mut Connection,
    plan: &Plan,
    end: Option<&'static str>,
) -> Result<(), sqlx::Error> {
    close_entries(connection, &plan.closed).await?;
    open_entries(connection, &plan.opened.iter().collect::<Vec<_>>()).await?;
    for (name, lease) in &plan.leases {
        upsert_lease(connection, name, lease).await?;
    }
    let heads: Vec<_> = plan.heads.iter().collect();
    let (mut versions, mut heads) = (runs(&plan.versions).peekable(), runs(&heads).peekable());
    let mut script = Script::new(connection);
    while versions.peek().is_some() || heads.peek().is_some() {
        if let Some(run) = versions.next() {
            push_versions(script.statement().await?, run);
        }
        if let Some(run) = heads.next() {
            push_heads(script.statement().await?, run);
        }
        if versions.peek().is_some() || heads.peek().is_some() {
            // Not all at once: there would be a text to prepare for every size of a batch.
            script.run().await?;
        } else {
            push_state(script.statement().await?, plan);
        }
    }
    if let Some(end) = end {
        script.statement().await?.push(end);
    }
    script.run().await
}

fn push_versions(query: &mut QueryBuilder<Database>, versions: &[NewVersion]) {
    query.push(
        "INSERT INTO version (position, revision, container, partition, id, previous, expired, etag, body, \
         sealing_key, expires_at) ",
    );
    query.push_values(versions, |mut row, version| {
        row.push_bind(version.position)
            .push_bind(version.revision.to_sql())
            .push_bind(version.key.container.as_ref())
            .push_bind(version.key.partition.as_str())
            .push_bind(version.key.id.as_str())
            .push_bind(version.previous)
            .push_bind(i64::from(version.expired))
            .push_bind(version.etag.as_ref().map(|etag| etag.as_str()))
            .push_bind(version.body.as_deref())
            .push_bind(version.sealing_key.as_deref())
            .push_bind(version.expires_at);
    });
}

fn push_heads(query: &mut QueryBuilder<Database>, heads: &[(&Key, &Head)]) {
    query.push("INSERT INTO head (container, partition, id, revision, position, etag, expires_at) ");
    query.push_values(heads, |mut row, (key, head)| {
        row.push_bind(key.container.as_ref())
            .push_bind(key.partition.as_str())
            .push_bind(key.id.as_str())
            .push_bind(head.revision.to_sql())
            .push_bind(head.position)
            .push_bind(head.etag.as_ref().map(|etag| etag.as_str()))
            .push_bind(head.expires_at);
    });
    query.push(
        " ON CONFLICT (container, partition, id) DO UPDATE SET revision = excluded.revision, \
         position = excluded.position, etag = excluded.etag, expires_at = excluded.expires_at",
    );
}

/// Where the store stands afterwards.
fn push_state(query: &mut QueryBuilder<Database>, plan: &Plan) {
    query.push("UPDATE store SET revision = ").push_bind(plan.state.revision.to_sql());
    query.push(", position = ").push_bind(plan.state.position);
}

async fn close_entries(
    connection: &mut Connection,
    closed: &[(OpenEntry, Revision)],
) -> Result<(), sqlx::Error> {
    for run in runs(closed) {
        close_statement(run).build().execute(&mut *connection).await?;
    }
    Ok(())
}

pub(super) fn close_statement(closed: &[(OpenEntry, Revision)]) -> QueryBuilder<Database> {
    let mut query = QueryBuilder::<Database>::new("UPDATE entry SET until = gone.column7 FROM (");
    query.push_values(closed, |mut row, (open, until)| {
        row.push_bind(open.key.container.as_ref())
            .push_bind(open.entry.index.as_ref())
            .push_bind(open.entry.value.as_str())
            .push_bind(open.key.partition.as_str())
            .push_bind(open.key.id.as_str())
            .push_bind(open.since.to_sql())
            .push_bind(until.to_sql());
    });
    query.push(
        ") AS gone WHERE entry.container = gone.column1 AND entry.name = gone.column2 \
         AND entry.value = gone.column3 AND entry.partition = gone.column4 AND entry.id = gone.column5 \
         AND entry.since = gone.column6",
    );
    query
}

pub(super) async fn open_entries(
    connection: &mut Connection,
    opened: &[(&OpenEntry, &Option<Revision>)],
) -> Result<(), sqlx::Error> {
    for run in runs(opened) {
        let mut query = QueryBuilder::<Database>::new(
            "INSERT INTO entry (container, name, value, partition, id, since, until) ",
        );
        query.push_values(run, |mut row, (open, until)| {
            row.push_bind(open.key.container.as_ref())
                .push_bind(open.entry.index.as_ref())
                .push_bind(open.entry.value.as_str())
                .push_bind(open.key.partition.as_str())
                .push_bind(open.key.id.as_str())
                .push_bind(open.since.to_sql())
                .push_bind(until.map(Revision::to_sql));
        });
        query.push(" ON CONFLICT DO NOTHING");
        query.build().execute(&mut *connection).await?;
    }
    Ok(())
}

async fn upsert_lease(
    connection: &mut Connection,
    name: &LeaseName,
    lease: &LeaseRow,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO lease (name, holder, token, expires_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = excluded.token, \
         expires_at = excluded.expires_at",
    )
    .bind(name.as_str())
    .bind(lease.holder.as_str())
    .bind(i64::try_from(lease.token).unwrap_or(i64::MAX))
    .bind(lease.expires_at)
    .execute(connection)
    .await
    .map(drop)
}
