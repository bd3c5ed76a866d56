//! Documents whose time comes, and how long the past is kept.

use std::time::Duration;

use pilothouse_store::{Cause, Error, Precondition, Retention, Revision, Store, Transaction};
use pilothouse_test_support::eventually;
use rstest::rstest;
use serde_json::json;

use crate::fixture::{Fixture, Kind, ada, assert_sound, id, notes, tokens, vault};

async fn put_expiring(store: &Store, name: &str, time_to_live: Duration) {
    let mut transaction = Transaction::new(ada());
    let body = json!({"colour": "red"});
    transaction.put_expiring(&notes(), id(name), Precondition::Any, &body, time_to_live).unwrap();
    store.commit(&transaction).await.unwrap();
}

#[rstest]
#[tokio::test]
async fn expiry_is_a_delete_with_a_revision_of_its_own(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let mut feed = store.partition_feed(&ada(), Revision::ZERO);
    let a_while = fixture.a_while();
    put_expiring(&store, "first", a_while).await;
    put_expiring(&store, "second", a_while).await;
    put_expiring(&store, "kept", a_while).await;
    put_expiring(&store, "renewed", a_while).await;
    assert!(store.get(&notes(), &ada(), &id("first")).await.unwrap().unwrap().expires_at.is_some());
    store.put(&notes(), &ada(), id("kept"), Precondition::Any, &json!({})).await.unwrap();
    put_expiring(&store, "renewed", a_while * 1000).await;

    fixture.pass(a_while).await;
    let mut gone = Vec::new();
    while gone.len() < 2 {
        let batch =
            tokio::time::timeout(Duration::from_secs(60), feed.next()).await.expect("expiry").unwrap();
        // On a slow machine one of those that are written again may have gone before.
        for change in batch.changes.iter().filter(|change| change.cause == Cause::Expiry) {
            assert!(change.before.is_some() && change.after.is_none());
            if matches!(change.id.as_str(), "first" | "second") {
                gone.push((change.id.to_string(), change.revision));
            }
        }
    }
    gone.sort_unstable();
    assert_eq!((gone[0].0.as_str(), gone[1].0.as_str()), ("first", "second"));
    assert_ne!(gone[0].1, gone[1].1);
    assert_eq!(store.get(&notes(), &ada(), &id("first")).await.unwrap(), None);
    assert!(store.get(&notes(), &ada(), &id("kept")).await.unwrap().unwrap().expires_at.is_none());
    assert!(store.get(&notes(), &ada(), &id("renewed")).await.unwrap().is_some());
    assert_sound(&store).await;
}

#[rstest]
#[tokio::test]
async fn what_expired_while_the_store_was_closed_goes_when_it_opens(
    #[values(Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    put_expiring(&store, "x", fixture.a_while()).await;
    store.close().await;
    fixture.pass(fixture.a_while()).await;
    let store = fixture.store().await;
    eventually("the document to be gone", Duration::from_secs(60), || async {
        match store.get(&notes(), &ada(), &id("x")).await.unwrap() {
            None => Ok(()),
            Some(document) => Err(format!("{document:?}")),
        }
    })
    .await;
}

#[rstest]
#[tokio::test]
async fn the_past_is_kept_for_as_long_as_was_asked(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let keep = fixture.a_while();
    let mut options = fixture.options([notes(), tokens(), vault()]);
    options.retention = Retention { keep, every: keep / 8 };
    let store = Store::open(options).await.unwrap();
    let first = store.create(&notes(), &ada(), id("x"), &json!(1)).await.unwrap().revision;
    for n in 0..20 {
        store.put(&notes(), &ada(), id("x"), Precondition::Any, &json!(n)).await.unwrap();
    }
    assert!(store.get_at(&notes(), &ada(), &id("x"), first).await.is_ok());
    let error = eventually("the first revision to be forgotten", Duration::from_secs(60), || async {
        fixture.pass(keep / 8).await;
        tokio::task::yield_now().await;
        store
            .get_at(&notes(), &ada(), &id("x"), first)
            .await
            .map_or_else(Ok, |document| Err(format!("{document:?}")))
    })
    .await;
    assert!(matches!(error, Error::TooOld { .. }), "{error}");
    eventually("its rows to be deleted", Duration::from_secs(60), || async {
        fixture.pass(keep / 8).await;
        let versions = store.check().await.unwrap().versions;
        if versions == 1 { Ok(()) } else { Err(format!("{versions} versions")) }
    })
    .await;
    assert_sound(&store).await;
}
