//! Single documents and transactions.

use pilothouse_store::{
    Conflict, Decision, Document, Error, Outcome, Precondition, Query, Revision, Transaction,
};
use rstest::rstest;
use serde_json::json;

use crate::fixture::{Fixture, Kind, ada, assert_sound, bob, id, notes, value, vault};

#[rstest]
#[tokio::test]
async fn a_document_is_read_as_it_was_written(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let body = json!({"colour": "red", "text": "ä \u{0} \" \\ 𝄞", "deep": [{"a": null}, 1.5, -7, 12345678901234567890u64]});
    let committed = store.create(&notes(), &ada(), id("a/b ö"), &body).await.unwrap();

    let document = store.get(&notes(), &ada(), &id("a/b ö")).await.unwrap().unwrap();
    assert_eq!(value(&document), body);
    assert_eq!(document.revision, committed.revision);
    assert_eq!(Some(&document.etag), committed.etag());
    assert_eq!(store.get(&notes(), &bob(), &id("a/b ö")).await.unwrap(), None);
    assert_eq!(store.get(&vault(), &ada(), &id("a/b ö")).await.unwrap(), None);
    assert_sound(&store).await;
}

#[rstest]
#[tokio::test]
async fn preconditions_tell_missing_from_existing_from_changed(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let (container, partition) = (notes(), ada());
    let put = |precondition, number: u32| {
        let (store, container, partition) = (&store, &container, &partition);
        async move { store.put(container, partition, id("x"), precondition, &json!({"n": number})).await }
    };
    let first = put(Precondition::Absent, 1).await.unwrap().etag().unwrap().clone();
    let exists = put(Precondition::Absent, 2).await.unwrap_err();
    assert!(
        matches!(exists, Error::Conflict(Conflict::Exists { ref etag, .. }) if *etag == first),
        "{exists}"
    );

    let second = put(Precondition::Etag(first.clone()), 2).await.unwrap().etag().unwrap().clone();
    assert_ne!(first, second);
    let changed = put(Precondition::Etag(first.clone()), 3).await.unwrap_err();
    assert!(
        matches!(changed, Error::Conflict(Conflict::Changed { ref etag, .. }) if *etag == second),
        "{changed}"
    );
    let changed = store.delete(&container, &partition, id("x"), Precondition::Etag(first)).await.unwrap_err();
    assert!(matches!(changed, Error::Conflict(Conflict::Changed { .. })), "{changed}");

    let third = put(Precondition::Any, 3).await.unwrap().etag().unwrap().clone();
    store.delete(&container, &partition, id("x"), Precondition::Etag(third.clone())).await.unwrap();
    let missing = put(Precondition::Etag(third), 4).await.unwrap_err();
    assert!(matches!(missing, Error::Conflict(Conflict::Missing { .. })), "{missing}");
    assert_eq!(store.get(&container, &partition, &id("x")).await.unwrap(), None);

    let before = store.revision().await.unwrap();
    let nothing = store.delete(&container, &partition, id("x"), Precondition::Any).await.unwrap();
    assert_eq!(nothing.outcomes, [Outcome::Unchanged]);
    assert_eq!(nothing.revision, before, "what changes nothing has no revision");
    put(Precondition::Absent, 5).await.unwrap();
    assert_sound(&store).await;
}

#[rstest]
#[tokio::test]
async fn a_transaction_is_one_revision_across_containers_or_nothing(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let mut transaction = Transaction::new(ada());
    for n in 0..700 {
        transaction.create(&notes(), id(&format!("{n:04}")), &json!({"n": n, "colour": "red"})).unwrap();
    }
    transaction.create(&vault(), id("operation"), &json!({"state": "Accepted"})).unwrap();
    let committed = store.commit(&transaction).await.unwrap();
    assert_eq!(committed.outcomes.len(), 701);
    let document = store.get(&vault(), &ada(), &id("operation")).await.unwrap().unwrap();
    assert_eq!(document.revision, committed.revision);
    let document = store.get(&notes(), &ada(), &id("0699")).await.unwrap().unwrap();
    assert_eq!(document.revision, committed.revision);

    // One document of many is in the way: all stay away, and no revision is used up.
    let mut refused = Transaction::new(ada());
    refused.create(&notes(), id("new"), &json!({})).unwrap();
    refused.delete(&notes(), id("0001"), Precondition::Any);
    refused.create(&notes(), id("0002"), &json!({})).unwrap();
    let error = store.commit(&refused).await.unwrap_err();
    assert!(
        matches!(error, Error::Conflict(Conflict::Exists { ref id, .. }) if id.as_str() == "0002"),
        "{error}"
    );
    assert_eq!(store.get(&notes(), &ada(), &id("new")).await.unwrap(), None);
    assert!(store.get(&notes(), &ada(), &id("0001")).await.unwrap().is_some());
    assert_eq!(store.revision().await.unwrap(), committed.revision);
    assert_sound(&store).await;
}

#[rstest]
#[tokio::test]
async fn a_checked_document_guards_a_transaction_and_stays_as_it_is(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let guard =
        store.create(&notes(), &ada(), id("guard"), &json!({})).await.unwrap().etag().unwrap().clone();
    let guarded = |etag| {
        let mut transaction = Transaction::new(ada());
        transaction.check(&notes(), id("guard"), Precondition::Etag(etag));
        transaction.put(&notes(), id("guarded"), Precondition::Any, &json!({})).unwrap();
        transaction
    };
    let committed = store.commit(&guarded(guard.clone())).await.unwrap();
    assert_eq!(committed.outcomes[0], Outcome::Unchanged);
    assert_eq!(store.get(&notes(), &ada(), &id("guard")).await.unwrap().unwrap().etag, guard);

    store.put(&notes(), &ada(), id("guard"), Precondition::Any, &json!({})).await.unwrap();
    let error = store.commit(&guarded(guard)).await.unwrap_err();
    assert!(matches!(error, Error::Conflict(Conflict::Changed { .. })), "{error}");
}

#[rstest]
#[tokio::test]
async fn bad_input_is_refused_precisely_and_changes_nothing(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let mut twice = Transaction::new(ada());
    twice.create(&notes(), id("x"), &json!({})).unwrap();
    twice.delete(&notes(), id("x"), Precondition::Any);
    let error = store.commit(&twice).await.unwrap_err();
    assert!(error.to_string().contains("names `x` in `notes` twice"), "{error}");

    let unknown = pilothouse_store::Container::new("unknown");
    let error = store.create(&unknown, &ada(), id("x"), &json!({})).await.unwrap_err();
    assert!(error.to_string().contains("container `unknown`"), "{error}");

    let long = json!({"colour": "x".repeat(600)});
    let error = store.create(&notes(), &ada(), id("x"), &long).await.unwrap_err();
    assert!(error.to_string().contains("600 bytes"), "{error}");
    assert_eq!(store.revision().await.unwrap(), Revision::ZERO);
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_updates_of_one_document_all_count(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    store.create(&notes(), &ada(), id("counter"), &json!(0)).await.unwrap();
    let rounds = (0..4).map(|_| {
        let store = store.clone();
        async move {
            for _ in 0..8 {
                loop {
                    let outcome = store
                        .update(&notes(), &ada(), &id("counter"), |count: &mut u32| {
                            *count += 1;
                            Decision::Write
                        })
                        .await;
                    match outcome {
                        Ok(_) => break,
                        Err(Error::Conflict(Conflict::Changed { .. })) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    });
    futures::future::join_all(rounds).await;
    let document = store.get(&notes(), &ada(), &id("counter")).await.unwrap().unwrap();
    assert_eq!(value(&document), json!(32));
    assert_sound(&store).await;
}

#[rstest]
#[tokio::test]
async fn a_document_of_another_form_is_reported_with_its_path(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    #[derive(Debug, serde::Deserialize)]
    struct Note {
        #[expect(dead_code, reason = "only its type matters")]
        sizes: Vec<u32>,
    }
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    store.create(&notes(), &ada(), id("x"), &json!({"sizes": [1, "two"]})).await.unwrap();
    let error = store.get(&notes(), &ada(), &id("x")).await.unwrap().unwrap().parse::<Note>().unwrap_err();
    assert!(error.to_string().contains("`sizes[1]`"), "{error}");
}

#[rstest]
#[tokio::test]
async fn what_was_committed_is_there_after_reopening(#[values(Kind::Sqlite, Kind::Postgres)] kind: Kind) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let committed = store.create(&notes(), &ada(), id("x"), &json!({"n": 1})).await.unwrap();
    store.close().await;
    let error = store.create(&notes(), &ada(), id("y"), &json!({})).await.unwrap_err();
    assert!(matches!(error, Error::Closed), "{error}");

    let store = fixture.store().await;
    let document = store.get(&notes(), &ada(), &id("x")).await.unwrap().unwrap();
    assert_eq!((Some(&document.etag), document.revision), (committed.etag(), committed.revision));
    let next = store.create(&notes(), &ada(), id("y"), &json!({})).await.unwrap();
    assert!(next.revision > committed.revision);
    assert_sound(&store).await;
}

/// Reading one document and listing take different ways to it; neither may fall behind what the other has shown.
#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_reader_goes_back_behind_what_it_has_seen(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    const ROUNDS: u64 = 300;
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let number = |document: &Document| value(document)["n"].as_u64().unwrap();
    store.create(&notes(), &ada(), id("x"), &json!({"n": 0})).await.unwrap();
    let readers = (0..4).map(|_| {
        let store = store.clone();
        async move {
            let mut seen = 0;
            while seen < ROUNDS {
                let got = store.get(&notes(), &ada(), &id("x")).await.unwrap().unwrap();
                assert!(number(&got) >= seen, "{} was read after {seen}", number(&got));
                let listed = store.list(Query::all(&notes())).await.unwrap().documents;
                assert!(number(&listed[0]) >= number(&got));
                seen = number(&listed[0]);
            }
        }
    });
    let writer = async {
        for n in 1..=ROUNDS {
            store.put(&notes(), &ada(), id("x"), Precondition::Any, &json!({"n": n})).await.unwrap();
            let got = store.get(&notes(), &ada(), &id("x")).await.unwrap().unwrap();
            assert_eq!(number(&got), n, "what was committed is seen");
        }
    };
    // Tasks of their own, so that they run at the same time.
    let mut running = tokio::task::JoinSet::new();
    readers.for_each(|reader| drop(running.spawn(reader)));
    writer.await;
    running.join_all().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_check_beside_a_writer_finds_nothing_wrong(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let writing = store.clone();
    let mut running = tokio::task::JoinSet::new();
    running.spawn(async move {
        for n in 0..300 {
            let (id, body) = (id(&format!("{}", n % 7)), json!({"colour": format!("colour {n}")}));
            writing.put(&notes(), &ada(), id.clone(), Precondition::Any, &body).await.unwrap();
            if n % 3 == 0 {
                writing.delete(&notes(), &ada(), id, Precondition::Any).await.unwrap();
            }
        }
    });
    let done = loop {
        match running.try_join_next() {
            Some(done) => break done,
            None => assert_sound(&store).await,
        }
    };
    done.unwrap();
}
