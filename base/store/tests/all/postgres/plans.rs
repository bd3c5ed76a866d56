//! Plans that are made while a store is empty are kept for as long as a connection lives. They have to be good for a store
//! that has grown since.

use std::time::Duration;

use pilothouse_store::{Precondition, Query, Transaction};
use pilothouse_test_support::{eventually, postgres};
use serde_json::json;

use crate::fixture::{Fixture, Kind, ada, id, notes};

/// Documents of one batch: enough that the database has a choice.
const BATCH: usize = 16;
const BATCHES: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn index_entries_of_a_batch_are_found_without_reading_those_of_others() {
    let Some(fixture) = Fixture::new(Kind::Postgres) else { return };
    let Some(server) = postgres::shared() else { return };
    let store = fixture.store().await;
    // Every batch also changes the one before, and so looks for its entries.
    for batch in 0..BATCHES {
        let mut transaction = Transaction::new(ada());
        for (number, colour) in [(Some(batch), "red"), (batch.checked_sub(1), "blue")] {
            let Some(number) = number else { continue };
            for place in 0..BATCH {
                let document = id(&format!("{number}-{place}"));
                transaction.put(&notes(), document, Precondition::Any, &json!({"colour": colour})).unwrap();
            }
        }
        store.commit(&transaction).await.unwrap();
    }
    // Its connections say what they have read when they end, at the latest.
    store.close().await;
    let ask = |sql: &str| ask(server, &fixture, sql);
    eventually("the store's connections to end", Duration::from_secs(60), || async {
        let left = ask("select count(*) from pg_stat_activity where application_name = 'pilothouse' and datname = current_database()");
        if left == "0" { Ok(()) } else { Err(left) }
    })
    .await;
    let read = ask("select idx_tup_read from pg_stat_all_indexes where indexrelname = 'entry_by_key'");
    let read: usize = read.parse().unwrap();
    let all = BATCH * BATCHES;
    assert!((1..4 * all).contains(&read), "{read} entries were read for {all} changes");
}

/// A list by an index is asked for often enough that the database makes a plan to keep, while there is next to nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_by_an_index_reads_no_documents_but_its_own() {
    let Some(fixture) = Fixture::new(Kind::Postgres) else { return };
    let Some(server) = postgres::shared() else { return };
    let store = fixture.store().await;
    let listed =
        |colour: &'static str| store.list(Query::partition(&notes(), &ada()).matching("colour", colour));
    for _ in 0..10 {
        assert_eq!(listed("blue").await.unwrap().documents.len(), 0);
    }
    for batch in 0..BATCHES {
        let mut transaction = Transaction::new(ada());
        for place in 0..BATCH {
            let colour = if place == 0 { "blue" } else { "red" };
            let document = id(&format!("{batch}-{place}"));
            transaction.put(&notes(), document, Precondition::Any, &json!({"colour": colour})).unwrap();
        }
        store.commit(&transaction).await.unwrap();
    }
    for _ in 0..10 {
        assert_eq!(listed("blue").await.unwrap().documents.len(), BATCHES);
    }
    store.close().await;
    let ask = |sql: &str| ask(server, &fixture, sql);
    eventually("the store's connections to end", Duration::from_secs(60), || async {
        let left = ask("select count(*) from pg_stat_activity where application_name = 'pilothouse' and datname = current_database()");
        if left == "0" { Ok(()) } else { Err(left) }
    })
    .await;
    let read = ask("select idx_tup_read from pg_stat_all_indexes where indexrelname = 'head_pkey'");
    let read: usize = read.parse().unwrap();
    // Those that were listed, and those that were written.
    let needed = 10 * BATCHES + BATCH * BATCHES;
    assert!((1..3 * needed).contains(&read), "{read} heads were read where {needed} are enough");
}

/// Sealed documents do not get smaller; finding that out should not be what a commit costs most.
#[tokio::test]
async fn large_documents_are_made_smaller_the_quick_way_where_the_server_has_it() {
    let Some(fixture) = Fixture::new(Kind::Postgres) else { return };
    let Some(server) = postgres::shared() else { return };
    let ways = "select 'lz4' = any(enumvals) from pg_settings where name = 'default_toast_compression'";
    if ask(server, &fixture, ways) != "t" {
        return;
    }
    let store = fixture.store().await;
    let large = json!({"text": "a document ".repeat(2_000)});
    store.create(&notes(), &ada(), id("large"), &large).await.unwrap();
    let way = "select pg_column_compression(body) from documents.version where id = 'large'";
    assert_eq!(ask(server, &fixture, way), "lz4");
}

/// What the database of a fixture answers.
fn ask(server: &postgres::Server, fixture: &Fixture, sql: &str) -> String {
    let (url, location) = (server.url(), fixture.location.to_string());
    let (base, _) = url.rsplit_once('/').unwrap();
    let name = location.split('?').next().unwrap().rsplit('/').next().unwrap();
    server.try_run_psql(&format!("{base}/{name}"), sql).unwrap().trim().to_owned()
}
