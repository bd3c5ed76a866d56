//! Opening a schema: is it there, is it of a version we know.

use std::time::Duration;

use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection as _, PgConnection, PgPool, Row as _};

use super::address::Address;
use super::error::classify;
use crate::Error;
use crate::sql::{SCHEMA_VERSION, Step, migration_error, migrator, trusted};

pub(super) const MIGRATIONS: &[Step] =
    &[(1, "documents", include_str!("../../migrations/postgres/0001_documents/up.sql"))];

/// Makes the schema and brings it to the present version.
pub(super) async fn migrate(address: &Address) -> Result<(), Error> {
    let mut connection = connect(address).await?;
    if !schema_exists(&mut connection, address).await? {
        // Two processes may come here at once, and even IF NOT EXISTS can lose that race.
        let created = sqlx::query(trusted(format!("CREATE SCHEMA IF NOT EXISTS {}", address.schema())))
            .execute(&mut connection)
            .await;
        if let Err(error) = created
            && !schema_exists(&mut connection, address).await?
        {
            return Err(classify(address, "made its schema", error));
        }
    }
    apply_migrations(address, &mut connection, SCHEMA_VERSION).await?;
    connection.close().await.map_err(|error| classify(address, "migrated the schema", error))
}

/// Brings the schema to a version. Processes that start together take turns.
pub(super) async fn apply_migrations(
    address: &Address,
    connection: &mut PgConnection,
    version: i64,
) -> Result<(), Error> {
    migrator(MIGRATIONS).run_to(version, connection).await.map_err(|error| match error {
        sqlx::migrate::MigrateError::Execute(error)
        | sqlx::migrate::MigrateError::ExecuteMigration(error, _) => {
            classify(address, "migrated the schema", error)
        }
        error => {
            let text = error.to_string();
            migration_error(&address.to_string(), error)
                .unwrap_or(Error::Engine { action: "migrated the schema", source: text.into() })
        }
    })
}

/// A look at a schema that must exist.
pub(super) async fn inspect(address: &Address) -> Result<(), Error> {
    let mut connection = connect(address).await?;
    let foreign = |problem: String| Error::Foreign { database: address.to_string(), problem };
    let failed = |error| classify(address, "looked at its schema", error);
    let tables: i64 = sqlx::query(
        "SELECT count(*) AS tables FROM information_schema.tables WHERE table_schema = $1 AND table_name = 'migration'",
    )
    .bind(address.schema())
    .fetch_one(&mut connection)
    .await
    .and_then(|row| row.try_get("tables"))
    .map_err(failed)?;
    if tables == 0 {
        return Err(foreign("there is no such schema, or no store in it".to_owned()));
    }
    let found: Option<i64> = sqlx::query("SELECT max(version) AS version FROM migration")
        .fetch_one(&mut connection)
        .await
        .and_then(|row| row.try_get("version"))
        .map_err(failed)?;
    match found {
        Some(SCHEMA_VERSION) => Ok(()),
        Some(found) if found > SCHEMA_VERSION => {
            Err(Error::Newer { database: address.to_string(), found, known: SCHEMA_VERSION })
        }
        found => Err(foreign(format!(
            "it has schema version {}, this program reads {SCHEMA_VERSION}; start the service once to migrate it",
            found.unwrap_or_default(),
        ))),
    }
}

/// Reading connections, made when they are needed and checked by being used.
pub(super) fn readers(address: &Address) -> PgPool {
    PgPoolOptions::new()
        .max_connections(8)
        .acquire_timeout(Duration::from_secs(10))
        .idle_timeout(Duration::from_secs(300))
        .connect_lazy_with(address.options().clone())
}

pub(super) async fn connect(address: &Address) -> Result<PgConnection, Error> {
    let patience = Duration::from_secs(10);
    match tokio::time::timeout(patience, PgConnection::connect_with(address.options())).await {
        Ok(connected) => connected.map_err(|error| classify(address, "connected", error)),
        Err(elapsed) => Err(Error::Unavailable {
            problem: format!("{address} did not answer within {} s", patience.as_secs()),
            source: elapsed.into(),
        }),
    }
}

async fn schema_exists(connection: &mut PgConnection, address: &Address) -> Result<bool, Error> {
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)")
        .bind(address.schema())
        .fetch_one(connection)
        .await
        .map_err(|error| classify(address, "looked for its schema", error))
}
