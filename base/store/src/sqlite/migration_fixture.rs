//! A SQLite file at any schema version.

use camino::Utf8PathBuf;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{AssertSqlSafe, Connection as _, Row as _, SqliteConnection};

use super::apply_migrations;
use crate::Location;

pub(super) const PUBLISHED: &[&str] = &["1 documents dcba980d2aaea6ee"];

pub(super) struct Scratch {
    _folder: tempfile::TempDir,
    path: Utf8PathBuf,
    connection: Option<SqliteConnection>,
}

impl Scratch {
    pub(super) async fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().join("store.db")).unwrap();
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .pragma("application_id", super::open::APPLICATION_ID.to_string());
        let connection = SqliteConnection::connect_with(&options).await.unwrap();
        Some(Self { _folder: folder, path, connection: Some(connection) })
    }

    fn connection(&mut self) -> &mut SqliteConnection {
        self.connection.as_mut().unwrap()
    }

    pub(super) fn location(&self) -> Location {
        Location::sqlite(self.path.clone())
    }

    pub(super) async fn migrate(&mut self, version: i64) {
        let path = self.path.clone();
        apply_migrations(&path, self.connection(), version).await.unwrap();
    }

    pub(super) async fn run(&mut self, text: &str) {
        sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(self.connection()).await.unwrap();
    }

    pub(super) async fn schema(&mut self) -> String {
        let rows = sqlx::query("SELECT name, coalesce(sql, '') AS sql FROM sqlite_master ORDER BY name")
            .fetch_all(self.connection())
            .await
            .unwrap();
        rows.iter().map(|row| format!("{}\n{}\n", row.get::<String, _>(0), row.get::<String, _>(1))).collect()
    }

    pub(super) async fn insert_newer_migration(&mut self, version: i64) {
        sqlx::query(
            "INSERT INTO migration (version, description, success, checksum, execution_time) \
             VALUES ($1, 'later', TRUE, x'00', 0)",
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
