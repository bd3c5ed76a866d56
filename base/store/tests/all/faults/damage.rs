//! Files that are not, or no longer, a store. Whatever is in them, the answer is an error and never a panic; a
//! wrong document is never shown without `check` knowing; and what is not ours stays as it is.

use std::collections::BTreeMap;
use std::fs;

use camino::Utf8Path;
use pilothouse_store::{Error, Store};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{Connection as _, SqliteConnection};

use super::{open, try_open, utf8};
use crate::fixture::{ada, id, notes, vault};

const PAGE: usize = 4096;

/// Documents, some longer than a page, some secret; by container and id.
type Content = BTreeMap<(&'static str, String), String>;

/// A closed store.
async fn fill(folder: &Utf8Path) -> Content {
    let store = open(folder).await;
    let mut content = Content::new();
    for number in 0..120 {
        let name = format!("{number:03}");
        let size = if number % 10 == 0 { 9_000 } else { 200 };
        for container in [notes(), vault()] {
            let body = json!({"colour": "red", "number": number, "text": "x".repeat(size)});
            store.create(&container, &ada(), id(&name), &body).await.unwrap();
            let container = if container.name() == "notes" { "notes" } else { "vault" };
            content.insert((container, name.clone()), body.to_string());
        }
    }
    store.close().await;
    assert!(!folder.join("store.db-wal").exists(), "all is in one file");
    content
}

/// What reading everything one by one gave.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    right: usize,
    refused: usize,
    wrong: Vec<String>,
}

async fn see(store: &Store, content: &Content) -> Seen {
    let mut seen = Seen::default();
    for ((container, name), text) in content {
        let container = if *container == "notes" { notes() } else { vault() };
        match store.get(&container, &ada(), &id(name)).await {
            Ok(Some(document)) if document.text() == text => seen.right += 1,
            Ok(found) => seen.wrong.push(format!("{name}: {found:?}")),
            // A body that is still text, but no document any more, has no form or no seal.
            Err(Error::Damaged { .. } | Error::Form { .. } | Error::Sealing { .. }) => seen.refused += 1,
            Err(error) => panic!("{name}: {error}: {error:?}"),
        }
    }
    seen
}

/// Opens a damaged store, and sees that it is honest. Answers how many documents can be read, if it opens.
async fn assert_honest(folder: &Utf8Path, content: &Content, what: &str) -> Option<usize> {
    let store = match try_open(folder).await {
        Ok(store) => store,
        Err(Error::Damaged { .. } | Error::Foreign { .. }) => return None,
        Err(error) => panic!("{what}: {error}: {error:?}"),
    };
    let seen = see(&store, content).await;
    let sound = match store.check().await {
        Ok(report) => report.problems.is_empty(),
        Err(Error::Damaged { .. }) => false,
        Err(error) => panic!("{what}: {error}: {error:?}"),
    };
    assert!(!sound || seen.right == content.len(), "{what}: nothing found by the check, but {seen:?}");
    store.close().await;
    Some(seen.right)
}

#[tokio::test]
async fn a_damaged_page_is_noticed_and_the_others_stay_readable() {
    let seed = super::seed();
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let folder = utf8(&folder);
    let content = fill(&folder).await;
    let file = folder.join("store.db");
    let whole = fs::read(&file).unwrap();
    let (mut opened, mut refused, mut readable) = (0, 0, 0);
    for page in 1..whole.len() / PAGE {
        let mut bytes = whole.clone();
        match page % 3 {
            0 => random.fill(&mut bytes[page * PAGE..(page + 1) * PAGE]),
            1 => bytes[page * PAGE..(page + 1) * PAGE].fill(0),
            // Text, which does not look wrong by itself.
            _ => bytes[page * PAGE..(page + 1) * PAGE].fill(b'y'),
        }
        fs::write(&file, &bytes).unwrap();
        let what = format!("seed {seed}, page {page}");
        match assert_honest(&folder, &content, &what).await {
            None => {
                refused += 1;
                assert!(fs::read(&file).unwrap() == bytes, "{what}: a file that was refused is as it was");
            }
            Some(right) => {
                opened += 1;
                readable += right;
                let store = try_open(&folder).await.unwrap();
                assert_eq!(see(&store, &content).await.right, right, "{what}: looking has made it worse");
                store.close().await;
            }
        }
        let _ = fs::remove_file(folder.join("store.db-wal"));
    }
    assert!(opened > refused, "most pages hold documents: {opened} opened, {refused} refused");
    assert!(
        readable / opened > content.len() / 2,
        "one page is not all: {} of {}",
        readable / opened,
        content.len()
    );
    fs::write(&file, &whole).unwrap();
    assert_eq!(assert_honest(&folder, &content, "repaired").await, Some(content.len()));
}

#[tokio::test]
async fn a_file_that_was_cut_off_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = utf8(&folder);
    let content = fill(&folder).await;
    let file = folder.join("store.db");
    let whole = fs::read(&file).unwrap();
    // SQLite takes a file of one byte for an empty one.
    for length in
        [2, 50, 100, 1000, PAGE, PAGE + 1, PAGE * 2, whole.len() / 2, whole.len() - PAGE, whole.len() - 1]
    {
        fs::write(&file, &whole[..length]).unwrap();
        let right = assert_honest(&folder, &content, &format!("the first {length} bytes")).await;
        // The very last bytes may be in nobody's use.
        let possible = if length > whole.len() / 2 { content.len() } else { content.len() / 2 };
        assert!(right.is_none_or(|right| right <= possible), "{length} bytes are not enough for {right:?}");
        let _ = fs::remove_file(folder.join("store.db-wal"));
    }
}

#[tokio::test]
async fn a_file_of_something_else_is_refused_and_left_alone() {
    let seed = super::seed();
    let folder = tempfile::tempdir().unwrap();
    let folder = utf8(&folder);
    fill(&folder).await;
    let file = folder.join("store.db");
    let mut overwritten = fs::read(&file).unwrap();
    StdRng::seed_from_u64(seed).fill(&mut overwritten[..100]);
    fs::remove_file(&file).unwrap();
    let text = "apiVersion: v1\nkind: ConfigMap\n".repeat(500).into_bytes();
    let journalled = database_of_another_application(&file, SqliteJournalMode::Delete).await;
    let logged = database_of_another_application(&file, SqliteJournalMode::Wal).await;

    for (what, bytes) in [
        ("an overwritten header", overwritten),
        ("text", text),
        ("a short text", b"hello\n".to_vec()),
        ("a database", journalled),
        ("a database with a log", logged),
    ] {
        fs::write(&file, &bytes).unwrap();
        let error = try_open(&folder).await.unwrap_err();
        assert!(
            matches!(error, Error::Foreign { .. } | Error::Damaged { .. }),
            "seed {seed}, {what}: {error}"
        );
        assert!(error.to_string().contains(file.as_str()), "{error}");
        assert!(fs::read(&file).unwrap() == bytes, "{what} is as it was");
        assert!(!folder.join("store.db-wal").exists(), "{what} has nothing beside it");
    }
}

#[tokio::test]
async fn a_database_of_something_else_keeps_the_log_it_was_left_with() {
    let folder = tempfile::tempdir().unwrap();
    let folder = utf8(&folder);
    let living = folder.join("living.db");
    let options = SqliteConnectOptions::new().filename(&living).create_if_missing(true);
    let options = options.journal_mode(SqliteJournalMode::Wal);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::query("CREATE TABLE bookmark (address TEXT)").execute(&mut connection).await.unwrap();
    // As its program would leave it by dying.
    let files = ["store.db", "store.db-wal"].map(|name| folder.join(name));
    let before = files.each_ref().map(|file| {
        let bytes = fs::read(file.as_str().replace("store", "living")).unwrap();
        fs::write(file, &bytes).unwrap();
        bytes
    });
    assert!(before.iter().all(|bytes| !bytes.is_empty()));

    let error = try_open(&folder).await.unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    for (file, before) in files.iter().zip(before) {
        assert!(fs::read(file).is_ok_and(|bytes| bytes == before), "{file} is as it was");
    }
}

async fn database_of_another_application(file: &Utf8Path, mode: SqliteJournalMode) -> Vec<u8> {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true).journal_mode(mode);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::query("CREATE TABLE bookmark (address TEXT)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let bytes = fs::read(file).unwrap();
    fs::remove_file(file).unwrap();
    bytes
}
