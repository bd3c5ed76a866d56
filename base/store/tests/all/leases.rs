//! Leases and fences.

use std::time::Duration;

use futures::FutureExt as _;
use pilothouse_store::{Conflict, Error, LeaseName, Transaction};
use rstest::rstest;
use serde_json::json;

use crate::fixture::{Fixture, Kind, ada, id, notes};

fn name() -> LeaseName {
    LeaseName::try_new("operations/7").unwrap()
}

#[rstest]
#[tokio::test]
async fn a_lease_has_one_holder_until_it_expires_or_is_released(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let a_while = fixture.a_while();
    let first = store.lease_acquire(&name(), "ada", a_while).await.unwrap();
    let error = store.lease_acquire(&name(), "bob", a_while).await.unwrap_err();
    assert!(
        matches!(&error, Error::LeaseHeld { holder, remaining, .. } if holder == "ada" && *remaining <= a_while),
        "{error}"
    );
    assert!(error.is_retryable());

    fixture.pass(a_while).await;
    let second = store.lease_acquire(&name(), "bob", a_while * 100).await.unwrap();
    assert!(second.token() > first.token());
    for lost in [
        store.lease_renew(&first, a_while).await.map(drop).unwrap_err(),
        store.lease_release(&first).await.unwrap_err(),
    ] {
        assert!(matches!(lost, Error::Conflict(Conflict::LeaseLost { .. })), "{lost}");
    }
    let renewed = store.lease_renew(&second, a_while * 100).await.unwrap();
    assert_eq!(renewed.token(), second.token());
    store.lease_release(&renewed).await.unwrap();
    let third = store.lease_acquire(&name(), "ada", a_while * 100).await.unwrap();
    assert!(third.token() > second.token(), "a token is never given out twice");
}

#[rstest]
#[tokio::test]
async fn a_write_fenced_by_a_lease_that_passed_on_is_refused(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let a_while = fixture.a_while();
    let lease = store.lease_acquire(&name(), "ada", a_while * 100).await.unwrap();
    let fenced = |lease: &pilothouse_store::Lease, name: &str| {
        let mut transaction = Transaction::new(ada());
        transaction.create(&notes(), id(name), &json!({})).unwrap();
        transaction.fenced_by(lease);
        transaction
    };
    store.commit(&fenced(&lease, "held")).await.unwrap();
    // The same holder asks again, as after a crash: what it was before is fenced off.
    let again = store.lease_acquire(&name(), "ada", a_while).await.unwrap();
    let error = store.commit(&fenced(&lease, "stale")).await.unwrap_err();
    assert!(matches!(error, Error::Conflict(Conflict::LeaseLost { .. })), "{error}");
    store.commit(&fenced(&again, "current")).await.unwrap();
    fixture.pass(a_while).await;
    let error = store.commit(&fenced(&again, "expired")).await.unwrap_err();
    assert!(matches!(error, Error::Conflict(Conflict::LeaseLost { .. })), "{error}");
    assert_eq!(store.get(&notes(), &ada(), &id("stale")).await.unwrap(), None);
}

#[rstest]
#[tokio::test]
async fn whoever_waits_for_a_lease_gets_it_when_it_is_released(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let lease = store.lease_acquire(&name(), "ada", Duration::from_secs(3600)).await.unwrap();
    let lease_name = name();
    let mut waiting = std::pin::pin!(store.lease_wait(&lease_name, "bob", Duration::from_secs(60)));
    for _ in 0..20 {
        assert!(waiting.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    let (taken, released) =
        futures::join!(tokio::time::timeout(Duration::from_secs(30), waiting), store.lease_release(&lease));
    released.unwrap();
    assert_eq!(taken.expect("woken").unwrap().holder(), "bob");
}

#[rstest]
#[tokio::test]
async fn tokens_grow_across_reopening(#[values(Kind::Sqlite, Kind::Postgres)] kind: Kind) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let first = store.lease_acquire(&name(), "ada", fixture.a_while() * 100).await.unwrap();
    store.close().await;
    let store = fixture.store().await;
    let error = store.lease_acquire(&name(), "bob", fixture.a_while()).await.unwrap_err();
    assert!(
        matches!(error, Error::LeaseHeld { .. }),
        "a lease outlives the process that asked for it: {error}"
    );
    let second = store.lease_acquire(&name(), "ada", fixture.a_while()).await.unwrap();
    assert!(second.token() > first.token());
}
