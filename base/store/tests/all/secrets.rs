//! What is marked secret is nowhere in clear.

use pilothouse_store::{Error, Precondition, Query, Revision, Store};
use pilothouse_test_support::postgres;
use rstest::rstest;
use serde_json::json;

use crate::fixture::{Fixture, Kind, ada, assert_sound, id, notes, tokens, value, vault};

const PLANTED: &str = "planted-4f1c9b2e";

async fn plant(store: &Store) {
    for n in 0..20 {
        let body =
            json!({"owner": "ada", "data": {"password": format!("{PLANTED}-{n}"), "deep": [{"x": PLANTED}]}});
        store.put(&tokens(), &ada(), id("token"), Precondition::Any, &body).await.unwrap();
        store.put(&vault(), &ada(), id("key"), Precondition::Any, &json!({"key": PLANTED})).await.unwrap();
    }
}

async fn assert_planted(store: &Store) {
    let token = store.get(&tokens(), &ada(), &id("token")).await.unwrap().unwrap();
    assert_eq!(value(&token)["data"]["password"], format!("{PLANTED}-19"));
    assert_eq!(value(&token)["owner"], "ada");
    let key = store.get(&vault(), &ada(), &id("key")).await.unwrap().unwrap();
    assert_eq!(value(&key), json!({"key": PLANTED}));
}

/// Every byte of every file in a folder.
fn folder_contains(folder: &std::path::Path, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(folder_contains(&path, needle));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        if bytes.windows(needle.len()).any(|window| window == needle.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn a_planted_secret_is_in_no_file_of_sqlite_and_in_no_backup() {
    let fixture = Fixture::new(Kind::Sqlite).unwrap();
    let store = fixture.store().await;
    plant(&store).await;
    // One that is not secret, to see that the search finds anything at all.
    store.create(&notes(), &ada(), id("x"), &json!({"text": "in-clear-77"})).await.unwrap();
    store.backup(fixture.path("backup.db")).await.unwrap();

    let folder = fixture.folder.path();
    let clear = folder_contains(folder, "in-clear-77");
    assert!(clear.iter().any(|path| path.ends_with("-wal")), "the log is searched as well: {clear:?}");
    assert!(clear.iter().any(|path| path.ends_with("backup.db")), "{clear:?}");
    assert_eq!(folder_contains(folder, PLANTED), Vec::<String>::new());
    store.close().await;
    assert_eq!(folder_contains(folder, PLANTED), Vec::<String>::new(), "after the log was folded in");

    let store = fixture.store().await;
    assert_planted(&store).await;
    assert_sound(&store).await;
}

#[tokio::test]
async fn every_file_of_sqlite_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::new(Kind::Sqlite).unwrap();
    let store = fixture.store().await;
    plant(&store).await;
    store.backup(fixture.path("backup.db")).await.unwrap();
    let mut files = 0;
    for entry in std::fs::read_dir(fixture.folder.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", entry.path());
        files += 1;
    }
    assert_eq!(files, 6, "database, log, its index, lock, keys, backup");
}

#[tokio::test]
async fn a_planted_secret_is_in_no_row_of_postgres_and_in_no_dump() {
    let Some(fixture) = Fixture::new(Kind::Postgres) else { return };
    let Some(server) = postgres::shared() else { return };
    let store = fixture.store().await;
    plant(&store).await;
    store.create(&notes(), &ada(), id("x"), &json!({"text": "in-clear-77"})).await.unwrap();
    assert_planted(&store).await;
    let address = fixture.location.to_string();
    let url = address
        .split('?')
        .next()
        .unwrap()
        .replace("postgres://", &format!("postgres://{}@", user(&server.url())));
    let dump = std::process::Command::new(server.program("pg_dump")).arg(url).output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let dump = String::from_utf8_lossy(&dump.stdout);
    assert!(dump.contains("in-clear-77"));
    assert!(!dump.contains(PLANTED));
}

fn user(url: &str) -> &str {
    url.trim_start_matches("postgres://").split('@').next().unwrap()
}

#[rstest]
#[tokio::test]
async fn the_key_can_be_changed_without_a_trace_in_the_feed(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    plant(&store).await;
    let revision = store.revision().await.unwrap();
    let old = fixture.keyring.key_ids();
    let rotation = store.rotate_key(false).await.unwrap();
    assert_eq!((rotation.resealed, rotation.retired.len()), (40, 0));
    assert_eq!(store.revision().await.unwrap(), revision);
    let report = store.check().await.unwrap();
    assert_eq!(report.problems, []);
    assert_eq!(
        report.sealed.keys().collect::<Vec<_>>(),
        [&rotation.key],
        "nothing needs the old key any more"
    );
    assert_planted(&store).await;

    let again = store.rotate_key(true).await.unwrap();
    assert_eq!(again.retired, [old[0].clone(), rotation.key]);
    assert_eq!(fixture.keyring.key_ids(), [again.key]);
    assert_planted(&store).await;
    let history = store.partition_feed(&ada(), Revision::ZERO).ready().await.unwrap();
    assert_eq!(history.changes.len(), 40, "past versions can still be read");
}

#[rstest]
#[tokio::test]
async fn a_store_moves_to_a_key_file_that_somebody_else_looks_after(
    #[values(Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    use std::os::unix::fs::PermissionsExt as _;

    let Some(mut fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    plant(&store).await;
    store.close().await;

    let (given, own) = (fixture.path("given.json"), fixture.path("store.key"));
    let key = format!("{{\"keys\":[{{\"id\":\"given\",\"key\":\"{}\"}}]}}", "A".repeat(43));
    std::fs::write(&given, key).unwrap();
    std::fs::set_permissions(&given, std::fs::Permissions::from_mode(0o400)).unwrap();
    fixture.keyring = pilothouse_store::Keyring::open(&given).unwrap().and_open_with(&own).unwrap();
    let store = fixture.store().await;
    assert_planted(&store).await;
    assert_eq!(store.seal_with_last_key().await.unwrap(), 40);
    assert_eq!(store.seal_with_last_key().await.unwrap(), 0);
    let report = store.check().await.unwrap();
    assert_eq!(report.sealed.keys().collect::<Vec<_>>(), ["given"]);
    store.close().await;

    // Whoever looks after the file may now forget the former key.
    fixture.keyring = pilothouse_store::Keyring::open(&given).unwrap();
    assert_planted(&fixture.store().await).await;
}

#[tokio::test]
async fn a_process_that_still_seals_with_a_retired_key_takes_up_the_new_one() {
    let Some(fixture) = Fixture::new(Kind::Postgres) else { return };
    let store = fixture.store().await;
    let mut options = fixture.options([notes(), tokens(), vault()]);
    let own = pilothouse_store::Keyring::open(fixture.path("store.key")).unwrap();
    options.keyring = Some(own.clone());
    let other = Store::open(options).await.unwrap();
    plant(&other).await;

    let rotation = store.rotate_key(true).await.unwrap();
    other.put(&vault(), &ada(), id("key"), Precondition::Any, &json!({"key": PLANTED})).await.unwrap();
    assert_eq!(own.key_ids(), [rotation.key]);
    assert_planted(&other).await;
    assert_planted(&store).await;
}

#[rstest]
#[tokio::test]
async fn without_its_key_a_secret_stays_closed_and_the_rest_is_readable(
    #[values(Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(mut fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    plant(&store).await;
    store.create(&notes(), &ada(), id("x"), &json!(1)).await.unwrap();
    store.close().await;
    fixture.keyring = pilothouse_store::Keyring::ephemeral().unwrap();
    let store = fixture.store().await;
    let error = store.get(&vault(), &ada(), &id("key")).await.unwrap_err();
    assert!(
        matches!(error, Error::Sealing { .. }) && error.to_string().contains("not in the key file"),
        "{error}"
    );
    assert!(store.list(Query::all(&notes())).await.is_ok());
    let report = store.check().await.unwrap();
    assert_eq!(report.problems.len(), 40, "every sealed version is reported");
}

#[rstest]
#[tokio::test]
async fn lists_may_leave_secrets_sealed(#[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    plant(&store).await;
    for (container, name) in [(tokens(), "token"), (vault(), "key")] {
        let page = store.list(Query::partition(&container, &ada()).sealed()).await.unwrap();
        assert_eq!(page.documents.len(), 1);
        assert!(!page.documents[0].text().contains(PLANTED), "{}", page.documents[0].text());
        let opened = store.unsealed(&page.documents[0]).unwrap();
        assert_eq!(Some(opened), store.get(&container, &ada(), &id(name)).await.unwrap());
    }
    let page = store.list(Query::partition(&tokens(), &ada()).sealed()).await.unwrap();
    let document = &page.documents[0];
    assert_eq!(value(document)["owner"], "ada", "what is no secret is to be seen");
    // One of them by itself, and nowhere but in its place.
    let sealed = value(document)["data"]["password"].to_string();
    let opened = store.unsealed_value(document, "/data/password", &sealed).unwrap();
    assert_eq!(serde_json::from_str::<String>(&opened).unwrap(), format!("{PLANTED}-19"));
    for (pointer, sealed) in
        [("/data/other", sealed.as_str()), ("/data/password", r#""clear""#), ("/data/password", "7")]
    {
        let refused = store.unsealed_value(document, pointer, sealed).map(|_| ());
        assert!(matches!(refused, Err(Error::Sealing { .. })), "{pointer} {sealed}");
    }
}

#[rstest]
#[tokio::test]
async fn text_that_is_handed_in_is_sealed_wherever_it_has_secrets(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(fixture) = Fixture::new(kind) else { return };
    let store = fixture.store().await;
    // Written as nobody here would: spaces, escapes in names, a member twice.
    let text = format!(
        r#"{{ "owner" : "ada", "d\u0061ta": {{"password": "{PLANTED}-1"}}, "data" : {{"password":"{PLANTED}", "n": 1.50}} }}"#
    );
    let body = serde_json::value::RawValue::from_string(text).unwrap();
    let mut transaction = pilothouse_store::Transaction::new(ada());
    transaction.put_text(&tokens(), id("token"), Precondition::Any, body, None);
    store.commit(&transaction).await.unwrap();
    let page =
        store.list(Query::partition(&tokens(), &ada()).matching("owner", "ada").sealed()).await.unwrap();
    assert!(!page.documents[0].text().contains(PLANTED), "{}", page.documents[0].text());
    let opened = store.get(&tokens(), &ada(), &id("token")).await.unwrap().unwrap();
    assert_eq!(value(&opened), json!({"owner": "ada", "data": {"password": PLANTED, "n": 1.50}}));
    assert_sound(&store).await;
}
