//! Following changes.

use std::time::Duration;

use futures::FutureExt as _;
use pilothouse_runtime::Shutdown;
use pilothouse_store::{
    Batch, Cause, Change, Cursor, Error, Feed, Precondition, Revision, Store, Transaction,
};
use rstest::rstest;
use serde_json::json;

use crate::fixture::{Fixture, Kind, ada, bob, id, notes, vault};

const LIMIT: Duration = Duration::from_secs(30);

/// A change in one line: where, before → after.
fn told(change: &Change) -> String {
    let text = |document: &Option<pilothouse_store::Document>| {
        document.as_ref().map_or_else(|| "-".to_owned(), |document| document.text().to_owned())
    };
    format!(
        "{}/{}/{}: {} → {}",
        change.container,
        change.partition,
        change.id,
        text(&change.before),
        text(&change.after)
    )
}

async fn next(feed: &mut Feed) -> Vec<Change> {
    tokio::time::timeout(LIMIT, feed.next()).await.expect("a change within the limit").unwrap().changes
}

#[rstest]
#[tokio::test]
async fn a_partition_and_a_container_are_followed_with_before_and_after(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let mut both = Transaction::new(ada());
    both.create(&notes(), id("x"), &json!(1)).unwrap();
    both.create(&vault(), id("y"), &json!("hidden")).unwrap();
    store.commit(&both).await.unwrap();
    store.create(&notes(), &bob(), id("x"), &json!(10)).await.unwrap();
    let middle = store.put(&notes(), &ada(), id("x"), Precondition::Any, &json!(2)).await.unwrap().revision;
    store.delete(&notes(), &ada(), id("x"), Precondition::Any).await.unwrap();
    store.create(&notes(), &ada(), id("x"), &json!(3)).await.unwrap();

    let mut feed = store.partition_feed(&ada(), Revision::ZERO);
    let changes = feed.ready().await.unwrap();
    let lines: Vec<_> = changes.changes.iter().map(told).collect();
    let expected = [
        "notes/ada/x: - → 1",
        r#"vault/ada/y: - → "hidden""#,
        "notes/ada/x: 1 → 2",
        "notes/ada/x: 2 → -",
        "notes/ada/x: - → 3",
    ];
    assert_eq!(lines, expected);
    assert_eq!(changes.changes[0].revision, changes.changes[1].revision);
    assert_eq!(changes.changes[2].before, Some(changes.changes[0].after.clone().unwrap()));
    assert!(changes.changes.iter().all(|change| change.cause == Cause::Transaction));
    assert_eq!(changes.through, store.revision().await.unwrap());
    assert!(feed.ready().await.unwrap().changes.is_empty());

    let mut feed = store.container_feed(&notes(), Revision::ZERO).unwrap();
    let changes = feed.ready().await.unwrap();
    assert_eq!(changes.changes.len(), 5);
    assert_eq!(told(&changes.changes[1]), "notes/bob/x: - → 10");

    let mut feed = store.container_feed(&notes(), middle).unwrap();
    assert_eq!(feed.ready().await.unwrap().changes.len(), 2, "from the middle on");
    let cursor = Cursor::try_from_text(feed.cursor().as_str()).unwrap();
    let mut feed = store.container_feed_from(&notes(), &cursor).unwrap();
    store.create(&notes(), &bob(), id("y"), &json!(11)).await.unwrap();
    assert_eq!(next(&mut feed).await.iter().map(told).collect::<Vec<_>>(), ["notes/bob/y: - → 11"]);
}

#[rstest]
#[tokio::test]
async fn a_waiting_reader_is_woken_by_the_commit_and_by_no_other(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let mut feed = store.partition_feed(&ada(), Revision::ZERO);
    // Often, since in a single round the reader may happen to look just after the commit.
    for n in 0..30 {
        let write = async {
            for _ in 0..n {
                tokio::task::yield_now().await;
            }
            store.create(&notes(), &bob(), id(&format!("elsewhere-{n}")), &json!(0)).await.unwrap();
            store.create(&notes(), &ada(), id(&format!("here-{n}")), &json!(1)).await.unwrap();
        };
        let (changes, ()) = futures::join!(next(&mut feed), write);
        assert_eq!(changes.iter().map(told).collect::<Vec<_>>(), [format!("notes/ada/here-{n}: - → 1")]);
    }
    // Dropping a wait loses nothing.
    assert!(feed.next().now_or_never().is_none());
    store.create(&notes(), &ada(), id("later"), &json!(2)).await.unwrap();
    assert_eq!(next(&mut feed).await.len(), 1);
}

#[rstest]
#[tokio::test]
async fn long_histories_come_in_parts_that_never_cut_a_transaction(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let (rounds, each) = (30, 40);
    for round in 0..rounds {
        let mut transaction = Transaction::new(ada());
        for n in 0..each {
            transaction.put(&notes(), id(&format!("{n}")), Precondition::Any, &json!(round)).unwrap();
        }
        store.commit(&transaction).await.unwrap();
    }
    let mut feed = store.partition_feed(&ada(), Revision::ZERO);
    let (mut seen, mut parts) = (Vec::new(), 0);
    while seen.len() < rounds * each {
        let batch = feed.ready().await.unwrap();
        assert_eq!(batch.changes.len() % each, 0, "a transaction was cut");
        seen.extend(batch.changes.into_iter().map(|change| change.revision));
        parts += 1;
    }
    assert!(parts > 1 && seen.is_sorted());
    assert!(feed.ready().await.unwrap().changes.is_empty());
}

#[rstest]
#[tokio::test]
async fn a_feed_from_a_compacted_point_is_too_old_and_a_current_one_goes_on(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let first = store.create(&notes(), &ada(), id("x"), &json!(1)).await.unwrap().revision;
    store.put(&notes(), &ada(), id("x"), Precondition::Any, &json!(2)).await.unwrap();
    let mut current = store.partition_feed(&ada(), Revision::ZERO);
    current.ready().await.unwrap();
    store.compact(store.revision().await.unwrap()).await.unwrap();

    let error = store.partition_feed(&ada(), first).next().await.unwrap_err();
    assert!(matches!(error, Error::TooOld { .. }), "{error}");
    let beyond = Revision::from_number(1_000_000);
    assert!(matches!(store.partition_feed(&ada(), beyond).next().await.unwrap_err(), Error::NotYet { .. }));
    store.delete(&notes(), &ada(), id("x"), Precondition::Any).await.unwrap();
    assert_eq!(next(&mut current).await.iter().map(told).collect::<Vec<_>>(), ["notes/ada/x: 2 → -"]);
}

/// In memory only: a paused clock leaps ahead while a disk is waited for, and what moves up is the same code.
#[tokio::test]
async fn a_feed_on_which_nothing_happens_is_not_overtaken_by_compaction() {
    let fixture = Fixture::new(Kind::Memory).unwrap();
    let store = fixture.store().await;
    let mut quiet = store.partition_feed(&ada(), Revision::ZERO);
    {
        let mut waiting = std::pin::pin!(quiet.next());
        assert!(waiting.as_mut().now_or_never().is_none());
        for n in 0..5 {
            store.create(&notes(), &bob(), id(&n.to_string()), &json!(n)).await.unwrap();
        }
        // The wait moves up by itself after a while.
        tokio::time::pause();
        assert!(tokio::time::timeout(Duration::from_secs(20), waiting).await.is_err());
        tokio::time::resume();
    }
    assert_eq!(quiet.revision(), store.revision().await.unwrap());
    store.compact(store.revision().await.unwrap()).await.unwrap();
    store.create(&notes(), &ada(), id("x"), &json!(1)).await.unwrap();
    assert_eq!(next(&mut quiet).await.len(), 1);
}

/// On SQLite the newest changes are kept at hand. Whoever has only the file is told the same.
#[tokio::test]
async fn what_is_at_hand_is_what_the_rows_say() {
    let Some(fixture) = Fixture::new(Kind::Sqlite) else { return };
    let store = fixture.store().await;
    let rows =
        Store::inspect(&fixture.location, Some(fixture.keyring.clone()), Shutdown::new()).await.unwrap();
    // Documents that are read before they change, and such that are not; several at once, and one after the other.
    for round in 0..40_u32 {
        if round % 3 == 0 {
            store.get(&notes(), &ada(), &id("a")).await.unwrap();
        }
        let mut both = Transaction::new(ada());
        both.put(&notes(), id("a"), Precondition::Any, &json!(round)).unwrap();
        match round % 5 {
            0 => both.delete(&notes(), id("b"), Precondition::Any),
            _ => both.put(&notes(), id("b"), Precondition::Any, &json!({ "round": round })).unwrap(),
        };
        if round % 7 == 0 {
            both.put(&vault(), id("c"), Precondition::Any, &json!(round)).unwrap();
        }
        let mut other = Transaction::new(bob());
        other.put(&notes(), id("a"), Precondition::Any, &json!(round)).unwrap();
        let (first, second) = tokio::join!(store.commit(&both), store.commit(&other));
        first.unwrap();
        second.unwrap();
        if round == 17 {
            let through = store.revision().await.unwrap();
            store.compact(Revision::from_number(through.number() - 9)).await.unwrap();
        }
    }
    let newest = store.revision().await.unwrap();
    assert_eq!(newest, rows.revision().await.unwrap());
    for after in (0..=newest.number()).map(Revision::from_number) {
        for (at_hand, stored) in [
            (store.partition_feed(&ada(), after), rows.partition_feed(&ada(), after)),
            (store.container_feed(&notes(), after).unwrap(), rows.container_feed(&notes(), after).unwrap()),
        ] {
            let told = async |mut feed: Feed| feed.ready().await.map_err(|error| error.to_string());
            let (at_hand, stored) = (told(at_hand).await, told(stored).await);
            let seen = |batch: Batch| (batch.changes, batch.through);
            assert_eq!(at_hand.map(seen), stored.map(seen), "after {after}");
        }
    }
}
