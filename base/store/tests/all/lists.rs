//! Lists: order, pages, prefixes, indexes, and the past.

use pilothouse_store::{Continue, Error, Precondition, Query, Revision, Transaction};
use rstest::rstest;
use serde_json::json;

use crate::fixture::{Fixture, Kind, ada, all_pages, assert_sound, bob, id, ids, notes};

#[rstest]
#[tokio::test]
async fn lists_are_in_the_order_of_bytes_whatever_the_page(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let mut names =
        ["a", "B", "b", "a/1", "a/10", "a/2", "a-", "ä", "Z", "z", "~", "0", "_"].map(str::to_owned);
    for partition in [ada(), bob()] {
        let mut transaction = Transaction::new(partition);
        for name in &names {
            transaction.create(&notes(), id(name), &json!({})).unwrap();
        }
        store.commit(&transaction).await.unwrap();
    }
    names.sort_unstable();
    let of = |partition: &str| names.iter().map(|name| format!("{partition}/{name}")).collect::<Vec<_>>();
    for limit in [1, 2, 5, 13, 100] {
        let pages = all_pages(&store, Query::partition(&notes(), &ada()), limit).await;
        assert_eq!(ids(&pages), of("ada"), "pages of {limit}");
        let pages = all_pages(&store, Query::all(&notes()), limit).await;
        assert_eq!(ids(&pages), [of("ada"), of("bob")].concat(), "pages of {limit}");
    }
    let pages = all_pages(&store, Query::partition(&notes(), &bob()).prefix("a/1"), 1).await;
    assert_eq!(ids(&pages), ["bob/a/1", "bob/a/10"]);
    let pages = all_pages(&store, Query::all(&notes()).prefix("a"), 3).await;
    let expected = ["a", "a-", "a/1", "a/10", "a/2"];
    let expected: Vec<String> =
        ["ada", "bob"].iter().flat_map(|p| expected.iter().map(move |name| format!("{p}/{name}"))).collect();
    assert_eq!(ids(&pages), expected);
}

#[rstest]
#[tokio::test]
async fn a_list_stays_at_the_revision_of_its_first_page(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    for n in 0..6 {
        store.create(&notes(), &ada(), id(&n.to_string()), &json!({"n": n})).await.unwrap();
    }
    let first = store.list(Query::partition(&notes(), &ada()).limit(2)).await.unwrap();

    // Everything behind the first page changes: one is deleted, one written, one deleted and made again, one new.
    store.delete(&notes(), &ada(), id("2"), Precondition::Any).await.unwrap();
    store.put(&notes(), &ada(), id("3"), Precondition::Any, &json!({"n": 33})).await.unwrap();
    store.put(&notes(), &ada(), id("3"), Precondition::Any, &json!({"n": 333})).await.unwrap();
    store.delete(&notes(), &ada(), id("4"), Precondition::Any).await.unwrap();
    store.create(&notes(), &ada(), id("4"), &json!({"n": 44})).await.unwrap();
    store.create(&notes(), &ada(), id("45"), &json!({"n": 45})).await.unwrap();

    let text = first.next.unwrap().to_text().unwrap();
    let next = Continue::try_from_text(&text).unwrap();
    let rest = store.list(Query::partition(&notes(), &ada()).from(next)).await.unwrap();
    assert_eq!(rest.revision, first.revision);
    let numbers: Vec<_> = rest.documents.iter().map(|document| document.text().to_owned()).collect();
    assert_eq!(numbers, [r#"{"n":2}"#, r#"{"n":3}"#, r#"{"n":4}"#, r#"{"n":5}"#]);
    assert!(rest.documents.iter().all(|document| document.revision <= first.revision));

    let four = store.get_at(&notes(), &ada(), &id("4"), first.revision).await.unwrap().unwrap();
    assert_eq!(four.text(), r#"{"n":4}"#, "the past before a deletion");

    let now = store.list(Query::partition(&notes(), &ada())).await.unwrap();
    let numbers: Vec<_> = now.documents.iter().map(|document| document.text().to_owned()).collect();
    assert_eq!(
        numbers,
        [r#"{"n":0}"#, r#"{"n":1}"#, r#"{"n":333}"#, r#"{"n":44}"#, r#"{"n":45}"#, r#"{"n":5}"#]
    );
}

#[rstest]
#[tokio::test]
async fn an_index_finds_documents_now_and_in_the_past(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let put = |name: &'static str, body: serde_json::Value| {
        let store = &store;
        async move {
            let put = store.put(&notes(), &ada(), id(name), Precondition::Any, &body).await;
            put.unwrap().revision
        }
    };
    let found = async |query: Query| ids(&all_pages(&store, query, 1).await);
    let red = || Query::all(&notes()).matching("colour", "red");

    put("a", json!({"colour": "red", "labels": {"app": "web"}})).await;
    put("b", json!({"colour": "red"})).await;
    let before = put("c", json!({"colour": "blue", "labels": {"app": "web", "tier": 1}})).await;
    put("a", json!({"colour": "blue", "labels": {"app": "web"}})).await;
    put("b", json!({"colour": "red", "n": 2})).await;
    let between = put("c", json!({"colour": "red"})).await;
    store.delete(&notes(), &ada(), id("b"), Precondition::Any).await.unwrap();
    put("a", json!({"colour": "red"})).await;

    assert_eq!(found(red()).await, ["ada/a", "ada/c"]);
    assert_eq!(found(red().at(before)).await, ["ada/a", "ada/b"]);
    assert_eq!(found(red().at(between)).await, ["ada/b", "ada/c"]);
    assert_eq!(found(Query::all(&notes()).matching("label", "app=web").at(before)).await, ["ada/a", "ada/c"]);
    assert_eq!(
        found(Query::all(&notes()).matching("label", "tier=1").at(between)).await,
        Vec::<String>::new()
    );
    assert_eq!(
        found(Query::partition(&notes(), &bob()).matching("colour", "red")).await,
        Vec::<String>::new()
    );
    assert_eq!(found(red().prefix("c")).await, ["ada/c"]);
    let error = store.list(Query::all(&notes()).matching("size", "1")).await.unwrap_err();
    assert!(error.to_string().contains("no index `size`"), "{error}");
    assert_sound(&store).await;
}

#[rstest]
#[tokio::test]
async fn compaction_ends_the_past_and_keeps_the_present(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    let mut revisions = Vec::new();
    for n in 0..10 {
        let colour = if n % 2 == 0 { "red" } else { "blue" };
        let body = json!({"colour": colour, "n": n});
        let put = store.put(&notes(), &ada(), id("x"), Precondition::Any, &body).await.unwrap();
        revisions.push(put.revision);
        store.put(&notes(), &ada(), id(&format!("other-{n}")), Precondition::Any, &json!({})).await.unwrap();
    }
    for n in 0..5 {
        store.delete(&notes(), &ada(), id(&format!("other-{n}")), Precondition::Any).await.unwrap();
    }
    let versions = store.check().await.unwrap().versions;
    store.compact(revisions[6]).await.unwrap();

    let at = async |revision| store.get_at(&notes(), &ada(), &id("x"), revision).await;
    let error = at(revisions[5]).await.unwrap_err();
    assert!(matches!(error, Error::TooOld { oldest, .. } if oldest == revisions[6]), "{error}");
    let error = store.list(Query::all(&notes()).at(revisions[5])).await.unwrap_err();
    assert!(matches!(error, Error::TooOld { .. }), "{error}");
    for (n, revision) in revisions.iter().enumerate().skip(6) {
        assert_eq!(
            at(*revision).await.unwrap().unwrap().text(),
            json!({"colour": if n % 2 == 0 {"red"} else {"blue"}, "n": n}).to_string()
        );
        let list = store.list(Query::all(&notes()).matching("colour", "red").at(*revision)).await.unwrap();
        assert_eq!(list.documents.len(), usize::from(n % 2 == 0), "at {n}");
    }
    let beyond = Revision::from_number(revisions[9].number() + 1000);
    assert!(matches!(at(beyond).await.unwrap_err(), Error::NotYet { .. }));
    assert_eq!(store.oldest_revision().await.unwrap(), revisions[6]);
    assert_sound(&store).await;

    store.compact(store.revision().await.unwrap()).await.unwrap();
    let report = store.check().await.unwrap();
    assert_eq!(report.problems, []);
    assert_eq!((report.documents, report.versions), (6, 6), "only present versions are left of {versions}");
    assert_eq!(store.list(Query::all(&notes())).await.unwrap().documents.len(), 6);
}

#[rstest]
#[tokio::test]
async fn ids_are_those_of_what_is_there_now(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    assert_eq!(store.ids(Query::all(&notes())).await.unwrap(), (vec![], store.revision().await.unwrap()));
    for (partition, name, colour) in [
        (ada(), "b", "red"),
        (ada(), "a/2", "red"),
        (ada(), "a/1", "blue"),
        (ada(), "gone", "red"),
        (bob(), "a", "red"),
    ] {
        store.create(&notes(), &partition, id(name), &json!({"colour": colour})).await.unwrap();
    }
    store.delete(&notes(), &ada(), id("gone"), Precondition::Any).await.unwrap();
    store.put(&notes(), &ada(), id("a/1"), Precondition::Any, &json!({"colour": "green"})).await.unwrap();
    let of_ada = || Query::partition(&notes(), &ada());
    for (query, expected) in [
        (of_ada(), vec!["a/1", "a/2", "b"]),
        // A page is none of its business.
        (of_ada().limit(1), vec!["a/1", "a/2", "b"]),
        (Query::all(&notes()), vec!["a/1", "a/2", "b", "a"]),
        (of_ada().prefix("a/"), vec!["a/1", "a/2"]),
        (of_ada().matching("colour", "red"), vec!["a/2", "b"]),
        (of_ada().matching("colour", "red").prefix("b"), vec!["b"]),
        (of_ada().matching("colour", "blue"), vec![]),
    ] {
        let (found, revision) = store.ids(query.clone()).await.unwrap();
        assert_eq!(found, expected.into_iter().map(id).collect::<Vec<_>>(), "{query:?}");
        assert_eq!(revision, store.revision().await.unwrap());
    }
    // A list can be begun behind any of them.
    let (found, at) = store.ids(of_ada()).await.unwrap();
    store.delete(&notes(), &ada(), id("b"), Precondition::Any).await.unwrap();
    let page = store.list(of_ada().from(Continue::behind(at, &ada(), &found[0]))).await.unwrap();
    assert_eq!(ids(&[page]), ["ada/a/2", "ada/b"]);
}
