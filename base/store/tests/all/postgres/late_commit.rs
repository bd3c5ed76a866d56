//! A transaction that commits late.
//!
//! A process writes its rows and then takes its time over the commit, while others write and readers follow. If
//! revisions could become visible out of order, a reader that has seen the later one would never look for the
//! earlier one.

use std::time::Duration;

use pilothouse_store::{Error, Revision};
use pilothouse_test_support::{eventually, postgres};
use serde_json::json;

use crate::fixture::{Fixture, Kind, ada, bob, id, notes};

/// What a slow process's session does, by hand: all of a batch but its commit.
const WRITE_WITHOUT_COMMIT: &str = "\
    BEGIN; \
    SET LOCAL idle_in_transaction_session_timeout = 0; \
    UPDATE documents.store SET revision = revision + 1, position = position + 1; \
    INSERT INTO documents.version (position, revision, container, partition, id, previous, expired, etag, body) \
      SELECT position, revision, 'notes', 'ada', 'slow', NULL, 0, 'slow', '{}' FROM documents.store; \
    INSERT INTO documents.head (container, partition, id, revision, position, etag) \
      SELECT 'notes', 'ada', 'slow', revision, position, 'slow' FROM documents.store;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_skips_nothing_that_commits_late() {
    use sqlx::{Connection as _, PgConnection};
    let Some(fixture) = Fixture::new(Kind::Postgres) else { return };
    let Some(server) = postgres::shared() else { return };
    let store = fixture.store().await;
    store.create(&notes(), &ada(), id("first"), &json!({})).await.unwrap();
    let mut feed = store.container_feed(&notes(), Revision::ZERO).unwrap();
    assert_eq!(feed.next().await.unwrap().changes.len(), 1);

    let database = fixture.location.to_string();
    let database = database.split('?').next().unwrap().rsplit('/').next().unwrap();
    let url = server.url();
    let (base, _) = url.rsplit_once('/').unwrap();
    let mut slow = PgConnection::connect(&format!("{base}/{database}")).await.unwrap();
    sqlx::raw_sql(WRITE_WITHOUT_COMMIT).execute(&mut slow).await.unwrap();

    // Others write meanwhile, to another partition as well; the reader follows.
    let other = fixture.store().await;
    let writing = async {
        let written = other.create(&notes(), &bob(), id("fast"), &json!({})).await.unwrap();
        written.revision
    };
    let following = async {
        let mut seen = Vec::new();
        while seen.len() < 2 {
            seen.extend(feed.next().await.unwrap().changes);
        }
        seen
    };
    let committing = async {
        // Only once the other writer is really there and waits, or has gone past.
        eventually("the other writer to have begun", Duration::from_secs(30), || async {
            let waiting = server
                .try_run_psql(
                    &server.url(),
                    &format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND wait_event_type = 'Lock'"),
                )
                .unwrap();
            let written = other.get(&notes(), &bob(), &id("fast")).await.unwrap().is_some();
            if waiting.trim() != "0" || written { Ok(()) } else { Err(waiting) }
        })
        .await;
        sqlx::raw_sql("COMMIT").execute(&mut slow).await.unwrap();
    };
    let limit = Duration::from_secs(30);
    let (seen, fast, ()) = futures::join!(tokio::time::timeout(limit, following), writing, committing);
    let seen = seen.expect("both changes are seen");
    let order: Vec<_> = seen.iter().map(|change| change.id.as_str()).collect();
    assert_eq!(order, ["slow", "fast"]);
    assert_eq!(seen[1].revision, fast);
}

/// A process that stops for good in the middle of a batch holds up the others for a while, not for ever.
#[tokio::test]
async fn a_process_that_stops_within_a_batch_is_put_out() {
    use sqlx::{Connection as _, PgConnection};
    let Some(fixture) = Fixture::new(Kind::Postgres) else { return };
    let Some(server) = postgres::shared() else { return };
    let store = fixture.store().await;
    let database = fixture.location.to_string();
    let database = database.split('?').next().unwrap().rsplit('/').next().unwrap();
    let url = server.url();
    let (base, _) = url.rsplit_once('/').unwrap();
    let mut stuck = PgConnection::connect(&format!("{base}/{database}")).await.unwrap();
    // The same limit as a store's own sessions have, only shorter.
    let begin = "SET idle_in_transaction_session_timeout = '300ms'; BEGIN; UPDATE documents.store SET revision = revision;";
    sqlx::raw_sql(begin).execute(&mut stuck).await.unwrap();
    let written =
        tokio::time::timeout(Duration::from_secs(30), store.create(&notes(), &ada(), id("x"), &json!({})))
            .await;
    match written.expect("within the limit") {
        Ok(_) => {}
        Err(error @ Error::Unavailable { .. }) => assert!(error.is_retryable()),
        Err(error) => panic!("{error}"),
    }
    assert!(store.get(&notes(), &ada(), &id("x")).await.is_ok());
    assert!(sqlx::raw_sql("SELECT 1").execute(&mut stuck).await.is_err(), "its session was ended");
}
