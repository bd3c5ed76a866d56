//! A PostgreSQL schema at any schema version.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};

use super::{Address, apply_migrations};
use crate::Location;

pub(super) const PUBLISHED: &[&str] = &["1 documents 1bbf7542a0535e31"];

pub(super) struct Scratch {
    url: String,
    address: Address,
    connection: Option<PgConnection>,
}

impl Scratch {
    /// None, after saying so, without PostgreSQL.
    pub(super) async fn new() -> Option<Self> {
        let url =
            format!("{}?schema=documents", pilothouse_test_support::postgres::shared()?.fresh_database());
        let address = Address::try_new(&url).unwrap();
        let mut connection = PgConnection::connect_with(address.options()).await.unwrap();
        sqlx::query("CREATE SCHEMA documents").execute(&mut connection).await.unwrap();
        Some(Self { url, address, connection: Some(connection) })
    }

    fn connection(&mut self) -> &mut PgConnection {
        self.connection.as_mut().unwrap()
    }

    pub(super) fn location(&self) -> Location {
        self.url.parse().unwrap()
    }

    pub(super) async fn migrate(&mut self, version: i64) {
        let address = self.address.clone();
        apply_migrations(&address, self.connection(), version).await.unwrap();
    }

    pub(super) async fn run(&mut self, text: &str) {
        sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(self.connection()).await.unwrap();
    }

    pub(super) async fn schema(&mut self) -> String {
        let rows = sqlx::query(
            "SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || coalesce(collation_name, '') \
               || ' ' || is_nullable || ' ' || coalesce(column_default, '') AS line \
             FROM information_schema.columns WHERE table_schema = 'documents' \
             UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'documents' \
             ORDER BY line",
        )
        .fetch_all(self.connection())
        .await
        .unwrap();
        rows.iter().map(|row| format!("{}\n", row.get::<String, _>(0))).collect()
    }

    pub(super) async fn insert_newer_migration(&mut self, version: i64) {
        sqlx::query(
            "INSERT INTO migration (version, description, success, checksum, execution_time) \
             VALUES ($1, 'later', TRUE, '\\x00'::bytea, 0)",
        )
        .bind(version)
        .execute(self.connection())
        .await
        .unwrap();
    }

    pub(super) async fn close(&mut self) {
        self.connection.take().unwrap().close().await.unwrap();
    }
}
