//! Declaring containers otherwise than before.

use pilothouse_store::{Container, Error, Precondition, Query, Revision, Store};
use rstest::rstest;
use serde_json::json;

use crate::fixture::{Fixture, Kind, ada, all_pages, assert_sound, id, ids};

fn plain() -> Container {
    Container::new("things")
}

async fn fill(store: &Store) {
    for n in 0..450 {
        let body = json!({"size": n % 3, "token": format!("secret-{n}")});
        store.create(&plain(), &ada(), id(&format!("{n:03}")), &body).await.unwrap();
    }
    store
        .put(&plain(), &ada(), id("000"), Precondition::Any, &json!({"size": 9, "token": "t"}))
        .await
        .unwrap();
}

#[rstest]
#[tokio::test]
async fn an_index_added_later_finds_what_was_there(#[values(Kind::Sqlite, Kind::Postgres)] kind: Kind) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.open([plain()]).await;
    fill(&store).await;
    store.close().await;

    let indexed = plain().with_index("size", "/size");
    let store = fixture.open([indexed.clone()]).await;
    let pages = all_pages(&store, Query::all(&indexed).matching("size", "1"), 100).await;
    assert_eq!(ids(&pages).len(), 150);
    let pages = all_pages(&store, Query::all(&indexed).matching("size", "9"), 100).await;
    assert_eq!(ids(&pages), ["ada/000"]);
    // The index knows nothing of the past, so neither does anybody else.
    let error = store.list(Query::all(&indexed).at(Revision::from_number(3))).await.unwrap_err();
    assert!(matches!(error, Error::TooOld { .. }), "{error}");
    assert_sound(&store).await;
    let revision = store.revision().await.unwrap();
    store.close().await;

    let store = fixture.open([indexed.clone(), Container::new("more")]).await;
    assert_eq!(store.revision().await.unwrap(), revision, "declaring is no transaction");
    store.delete(&indexed, &ada(), id("001"), Precondition::Any).await.unwrap();
    assert_sound(&store).await;
}

#[rstest]
#[tokio::test]
async fn what_becomes_secret_is_sealed_in_the_past_as_well_and_can_be_opened_again(
    #[values(Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.open([plain()]).await;
    fill(&store).await;
    store.close().await;

    for declared in [plain().with_secret("/token"), plain().sealed(), plain().with_secret("/size"), plain()] {
        let store = fixture.open([declared.clone()]).await;
        let report = store.check().await.unwrap();
        assert_eq!(report.problems, []);
        let sealed: u64 = report.sealed.values().sum();
        assert_eq!(sealed, if declared == plain() { 0 } else { report.versions });
        let document = store.get(&declared, &ada(), &id("007")).await.unwrap().unwrap();
        assert_eq!(document.parse::<serde_json::Value>().unwrap(), json!({"size": 1, "token": "secret-7"}));
        store.close().await;
    }
}

#[tokio::test]
async fn a_process_with_the_old_catalogue_is_refused_once_a_newer_one_has_changed_it() {
    let Some(fixture) = Fixture::new(Kind::Postgres) else { return };
    let old = fixture.open([plain()]).await;
    fill(&old).await;
    let new = fixture.open([plain().with_index("size", "/size")]).await;
    let error = old.create(&plain(), &ada(), id("late"), &json!({"size": 1})).await.unwrap_err();
    assert!(matches!(error, Error::Superseded { .. }), "{error}");
    assert_eq!(old.get(&plain(), &ada(), &id("late")).await.unwrap(), None);
    new.create(&plain(), &ada(), id("late"), &json!({"size": 1})).await.unwrap();
    assert_sound(&new).await;
}
