//! A service's work, shared by its replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use pilothouse_store::{Conflict, Error, Parts, Store, Transaction, Turn};
use pilothouse_test_support::eventually;
use rstest::rstest;
use serde_json::json;

use crate::fixture::{Fixture, Kind, ada, id, notes};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(60);

fn replica(store: &Store, name: &str, time_to_live: Duration) -> (Parts, Arc<AtomicI64>) {
    let held = Arc::new(AtomicI64::new(0));
    let count = held.clone();
    let parts = Parts::new(store.clone(), "test", name.to_owned(), time_to_live).counted_by(move |taken| {
        count.fetch_add(if taken { 1 } else { -1 }, Ordering::SeqCst);
    });
    (parts, held)
}

#[rstest]
#[tokio::test]
async fn a_part_has_one_holder_until_it_is_left_by_all(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let (first, held) = replica(&store, "first", LONG);
    let (second, _) = replica(&store, "second", LONG);
    let Turn::Ours(grant) = first.hold("a").await.unwrap() else { panic!("nobody had it") };
    assert_eq!((first.token("a").await, held.load(Ordering::SeqCst)), (Some(grant.lease().token()), 1));
    assert!(matches!(second.hold("a").await.unwrap(), Turn::Theirs(_)));
    first.leave("a").await;
    assert_eq!((first.token("a").await, held.load(Ordering::SeqCst)), (None, 0));
    let lost = grant.lease().clone();
    grant.lost().await;
    assert!(matches!(second.hold("a").await.unwrap(), Turn::Ours(_)));

    let mut transaction = Transaction::new(ada());
    transaction.create(&notes(), id("late"), &json!({})).unwrap();
    transaction.fenced_by(&lost);
    let refusal = store.commit(&transaction).await.unwrap_err();
    assert!(matches!(refusal, Error::Conflict(Conflict::LeaseLost { .. })), "{refusal}");
    second.release_all().await;
    assert!(matches!(first.hold("a").await.unwrap(), Turn::Ours(_)));
}

#[rstest]
#[tokio::test]
async fn whoever_starts_again_under_its_name_goes_on_at_once(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    assert_ne!(Parts::holder("test", None), Parts::holder("test", None));
    let name = Parts::holder("test", Some("one"));
    let (killed, _) = replica(&store, &name, LONG);
    let Turn::Ours(grant) = killed.hold("a").await.unwrap() else { panic!("nobody had it") };
    let (again, _) = replica(&store, &Parts::holder("test", Some("one")), LONG);
    assert!(matches!(again.hold("a").await.unwrap(), Turn::Ours(_)));

    // What was on its way from before does not arrive any more.
    let mut transaction = Transaction::new(ada());
    transaction.create(&notes(), id("late"), &json!({})).unwrap();
    transaction.fenced_by(grant.lease());
    let refusal = store.commit(&transaction).await.unwrap_err();
    assert!(matches!(refusal, Error::Conflict(Conflict::LeaseLost { .. })), "{refusal}");
}

#[rstest]
#[tokio::test]
async fn a_part_that_rests_is_kept_at_first_and_given_back_later(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    // It is looked at so often that nobody waits long, and runs out so late that it does not do so by itself.
    let (first, held) = replica(&store, "first", Duration::from_secs(6));
    let (second, _) = replica(&store, "second", LONG);
    let Turn::Ours(before) = first.hold("a").await.unwrap() else { panic!("nobody had it") };
    first.rest("a").await;
    let Turn::Ours(after) = first.hold("a").await.unwrap() else { panic!("it was ours") };
    assert_eq!(before.lease().token(), after.lease().token(), "it was never given away");
    assert!(matches!(second.hold("a").await.unwrap(), Turn::Theirs(_)));
    first.rest("a").await;
    let taken = eventually("it was given back", PATIENCE, || async {
        match held.load(Ordering::SeqCst) {
            0 => Ok(second.hold("a").await.unwrap()),
            held => Err(format!("{held} are held")),
        }
    });
    tokio::select! {
        () = first.renew() => panic!("renewing never ends"),
        taken = taken => assert!(matches!(taken, Turn::Ours(_)), "{taken:?}"),
    }
}

#[rstest]
#[tokio::test]
async fn a_part_that_is_needed_is_kept_beyond_its_time(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    // Long enough for a busy machine to renew it in time, and waited for once.
    const BRIEF: Duration = Duration::from_secs(3);
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let (first, _) = replica(&store, "first", BRIEF);
    let (second, _) = replica(&store, "second", LONG);
    let Turn::Ours(grant) = first.hold("a").await.unwrap() else { panic!("nobody had it") };
    let token = grant.lease().token();
    tokio::select! {
        () = first.renew() => unreachable!("it goes on for ever"),
        () = grant.lost() => panic!("it was not renewed"),
        () = tokio::time::sleep(BRIEF + BRIEF / 2) => {}
    }
    assert!(matches!(second.hold("a").await.unwrap(), Turn::Theirs(_)));
    assert_eq!(first.token("a").await, Some(token));
}
