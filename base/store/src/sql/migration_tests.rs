//! Migrations, for both dialects: fresh equals migrated, every step can be run twice, and rows that an older
//! program wrote are read by this one.

use std::fmt::Write as _;
use std::time::Duration;

use pilothouse_runtime::Shutdown;

use super::{MIGRATIONS, migration_fixture::Scratch};
use crate::{
    Catalog, Container, DocumentId, Error, LeaseName, Options, Partition, Query, Retention, Revision,
    SCHEMA_VERSION, Store,
};

/// The rows of each version, in the order of the migrations.
const ROWS: &[&str] = &[include_str!("../../migrations/rows-of-version-1.sql")];

fn options(scratch: &Scratch) -> Options {
    let notes = Container::new("notes").with_index("colour", "/colour");
    Options {
        // Nothing is to be compacted under the test's eyes.
        retention: Retention {
            keep: Duration::from_secs(86_400 * 365 * 100),
            every: Duration::from_secs(3600),
        },
        ..Options::new(scratch.location(), Catalog::try_new([notes]).unwrap(), Shutdown::new())
    }
}

#[test]
fn every_version_has_a_migration_and_rows_to_test_it_with() {
    let versions: Vec<i64> = MIGRATIONS.iter().map(|(version, _, _)| *version).collect();
    assert_eq!(versions, (1..=SCHEMA_VERSION).collect::<Vec<_>>());
    assert_eq!(ROWS.len(), MIGRATIONS.len());
}

#[tokio::test]
async fn a_fresh_schema_equals_one_migrated_from_any_version() {
    let Some(mut fresh) = Scratch::new().await else { return };
    fresh.migrate(SCHEMA_VERSION).await;
    let expected = fresh.schema().await;
    assert!(expected.contains("version_by_partition"), "the schema is really read: {expected}");
    for version in 1..=SCHEMA_VERSION {
        let Some(mut scratch) = Scratch::new().await else { return };
        scratch.migrate(version).await;
        scratch.run(ROWS[usize::try_from(version - 1).unwrap()]).await;
        scratch.migrate(SCHEMA_VERSION).await;
        assert_eq!(scratch.schema().await, expected, "from version {version}");
    }
}

#[tokio::test]
async fn every_migration_can_be_run_twice() {
    let Some(mut scratch) = Scratch::new().await else { return };
    for (version, name, text) in MIGRATIONS {
        scratch.migrate(*version).await;
        let before = scratch.schema().await;
        scratch.run(ROWS[usize::try_from(version - 1).unwrap()]).await;
        scratch.run(text).await;
        assert_eq!(scratch.schema().await, before, "{version} {name}");
    }
    scratch.close().await;
    let store = Store::open(options(&scratch)).await.unwrap();
    assert_eq!(store.revision().await.unwrap(), Revision::from_number(5), "its rows are untouched");
}

#[tokio::test]
async fn rows_of_every_older_version_are_read() {
    for version in 1..=SCHEMA_VERSION {
        let Some(mut scratch) = Scratch::new().await else { return };
        scratch.migrate(version).await;
        scratch.run(ROWS[usize::try_from(version - 1).unwrap()]).await;
        scratch.close().await;

        let store = Store::open(options(&scratch)).await.unwrap();
        assert_eq!(store.check().await.unwrap().problems, [], "rows of version {version}");
        let notes = Container::new("notes");
        let (ada, first) = (Partition::try_new("ada").unwrap(), DocumentId::try_new("first").unwrap());
        let document = store.get(&notes, &ada, &first).await.unwrap().unwrap();
        assert_eq!((document.etag.as_str(), document.text()), ("3-0badcafe", r#"{"colour":"blue"}"#));
        let red = |at| Query::all(&notes).matching("colour", "red").at(Revision::from_number(at));
        assert_eq!(store.list(red(2)).await.unwrap().documents.len(), 2);
        assert_eq!(store.list(red(5)).await.unwrap().documents.len(), 1);
        let mut lines = String::new();
        for change in store.container_feed(&notes, Revision::ZERO).unwrap().ready().await.unwrap().changes {
            let kind = match (&change.before, &change.after) {
                (None, Some(_)) => "made",
                (Some(_), Some(_)) => "changed",
                _ => "deleted",
            };
            write!(lines, "{} {}: {kind}; ", change.revision, change.id).unwrap();
        }
        assert_eq!(lines, "1 first: made; 2 second: made; 3 first: changed; 4 gone: made; 5 gone: deleted; ");
        let work = LeaseName::try_new("work").unwrap();
        let lease = store.lease_acquire(&work, "bob", Duration::from_secs(60)).await.unwrap();
        assert_eq!(lease.token(), 8);
        store.close().await;
    }
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_refused_and_left_alone() {
    let Some(mut scratch) = Scratch::new().await else { return };
    scratch.migrate(SCHEMA_VERSION).await;
    scratch.insert_newer_migration(SCHEMA_VERSION + 41).await;
    scratch.close().await;
    let error = Store::open(options(&scratch)).await.unwrap_err();
    assert!(
        matches!(error, Error::Newer { found, known, .. } if found == SCHEMA_VERSION + 41 && known == SCHEMA_VERSION),
        "{error}"
    );
    let error = Store::inspect(&scratch.location(), None, Shutdown::new()).await.unwrap_err();
    assert!(matches!(error, Error::Newer { .. }), "{error}");
}

/// A published migration is never edited; what has to change is another migration.
#[test]
fn published_migrations_are_as_they_were() {
    let digests: Vec<String> = MIGRATIONS
        .iter()
        .map(|(version, name, text)| {
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
            let hex: String = digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{version} {name} {hex}")
        })
        .collect();
    assert_eq!(digests, super::migration_fixture::PUBLISHED);
}
