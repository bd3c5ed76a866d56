//! Opening what cannot, or must not, be opened: the answer says what is wrong and what to do, and nothing is
//! changed.

use std::fs;
use std::time::Duration;

use camino::Utf8Path;
use pilothouse_runtime::Shutdown;
use pilothouse_store::{Durability, Error, Keyring, Location, SCHEMA_VERSION, Store};
use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection as _, SqliteConnection};

use super::verify::Ledger;
use super::workload::{WRITERS, Writer};
use super::writer::{Orders, Process, commit};
use super::{namespace, open, options, try_open, utf8};
use crate::fixture::{ada, assert_sound, id, notes};

async fn connect(file: &Utf8Path) -> SqliteConnection {
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(file)).await.unwrap()
}

/// A closed store with one document.
async fn store_with_a_note(folder: &Utf8Path) {
    let store = open(folder).await;
    store.create(&notes(), &ada(), id("note"), &json!({"text": "kept"})).await.unwrap();
    store.close().await;
}

async fn assert_note_is_there(folder: &Utf8Path) {
    let store = open(folder).await;
    assert!(store.get(&notes(), &ada(), &id("note")).await.unwrap().unwrap().text().contains("kept"));
    assert_sound(&store).await;
    store.close().await;
}

#[tokio::test]
async fn a_second_writing_process_is_refused_by_name_and_the_first_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = utf8(&folder);
    let seed = super::seed();
    let mut writer = Process::spawn(Orders::new(&folder, seed).command());
    writer.wait_for(5);

    let error = try_open(&folder).await.unwrap_err();
    let process = format!("process {}", writer.id());
    assert!(
        matches!(&error, Error::InUse { holder, .. } if *holder == process),
        "{error}, and not {process}"
    );
    assert!(error.to_string().contains("stop that process, or use another data directory"), "{error}");

    let inspected = inspect(&folder).await.unwrap();
    assert_sound(&inspected).await;
    assert!(inspected.revision().await.unwrap().number() >= 5);
    let refused = inspected.create(&notes(), &ada(), id("x"), &json!({})).await.unwrap_err();
    assert!(matches!(refused, Error::Closed), "{refused}");
    inspected.close().await;

    writer.wait_for(50);
    let mut ledger = Ledger::new(seed);
    ledger.acknowledge(&writer.kill());
    let store = open(&folder).await;
    ledger.verify(&store).await.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
}

#[tokio::test]
async fn a_second_store_in_one_process_is_refused_and_the_first_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = utf8(&folder);
    let seed = super::seed();
    let store = open(&folder).await;
    let mut writers: Vec<Writer> = (0..WRITERS).map(|writer| Writer::new(seed, writer)).collect();
    for attempt in 0..5 {
        let error = try_open(&folder).await.unwrap_err();
        let process = format!("process {}", std::process::id());
        assert!(matches!(&error, Error::InUse { holder, .. } if *holder == process), "{error}");
        let inspected = inspect(&folder).await.unwrap();
        assert_sound(&inspected).await;
        inspected.close().await;
        for (number, writer) in writers.iter_mut().enumerate() {
            commit(&store, writer, number).await;
        }
        assert_eq!(store.revision().await.unwrap().number(), (attempt + 1) * WRITERS as u64);
    }
    store.close().await;
    let store = open(&folder).await;
    let mut ledger = Ledger::new(seed);
    ledger.last = std::array::from_fn(|writer| writers[writer].number());
    ledger.verify(&store).await.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
}

async fn inspect(folder: &Utf8Path) -> Result<Store, Error> {
    let keyring = Keyring::open(folder.join("store.key"))?;
    Store::inspect(&Location::sqlite(folder.join("store.db")), Some(keyring), Shutdown::new()).await
}

#[tokio::test]
async fn who_only_looks_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = utf8(&folder);
    drop(options(&folder, Durability::default()));
    let error = inspect(&folder).await.unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }) && error.to_string().contains("no such file"), "{error}");
    assert!(!folder.join("store.db").exists());

    fs::write(folder.join("store.db"), "").unwrap();
    let error = inspect(&folder).await.unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }) && error.to_string().contains("empty"), "{error}");
    assert_eq!(fs::read(folder.join("store.db")).unwrap(), b"");
}

#[tokio::test]
async fn an_empty_file_becomes_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let folder = utf8(&folder);
    fs::write(folder.join("store.db"), "").unwrap();
    store_with_a_note(&folder).await;
    assert_note_is_there(&folder).await;
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = utf8(&folder);
    let mut options = options(&folder, Durability::default());
    let file = folder.join("missing/store.db");
    options.location = Location::sqlite(&file);
    let error = Store::open(options).await.unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }) && error.to_string().contains(file.as_str()), "{error}");
    assert!(!folder.join("missing").exists());
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_numbers_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = utf8(&folder);
    store_with_a_note(&folder).await;
    let file = folder.join("store.db");
    let mut connection = connect(&file).await;
    sqlx::query(
        "INSERT INTO migration (version, description, installed_on, success, checksum, execution_time) \
         SELECT 7, 'of tomorrow', installed_on, success, checksum, execution_time FROM migration WHERE version = 1",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    let before = fs::read(&file).unwrap();

    for error in [try_open(&folder).await.unwrap_err(), inspect(&folder).await.unwrap_err()] {
        assert!(matches!(error, Error::Newer { found: 7, known: SCHEMA_VERSION, .. }), "{error}");
        assert!(error.to_string().contains("schema version 7, this program knows 1"), "{error}");
    }
    assert!(fs::read(&file).unwrap() == before, "the file is as it was");
}

#[tokio::test]
async fn a_process_that_died_while_it_declared_containers_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = utf8(&folder);
    store_with_a_note(&folder).await;
    let mut connection = connect(&folder.join("store.db")).await;
    for interrupted in [
        "INSERT INTO lease (name, holder, token, expires_at) \
         VALUES ('store/catalogue', 'somebody dead', 1000, 9000000000000000) \
         ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at",
        "UPDATE container SET ready = 0",
    ] {
        assert!(sqlx::query(interrupted).execute(&mut connection).await.unwrap().rows_affected() > 0);
    }
    connection.close().await.unwrap();
    let opened = tokio::time::timeout(Duration::from_secs(30), assert_note_is_there(&folder)).await;
    opened.expect("the lease is taken over at once");
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_and_left_alone() {
    // An existing store in a read-only directory; none in one; a read-only file in a directory that is not.
    let read_only = |what: &str| format!("mount --bind {what} {what} && mount -o remount,bind,ro {what}");
    for (exists, mounts) in
        [(true, read_only("\"$1\"")), (false, read_only("\"$1\"")), (true, read_only("\"$1/store.db\""))]
    {
        let folder = tempfile::tempdir().unwrap();
        let folder = utf8(&folder);
        drop(options(&folder, Durability::default()));
        if exists {
            store_with_a_note(&folder).await;
        }
        let before = fs::read(folder.join("store.db")).ok();
        if !namespace::run("faults::opening::read_only_in_a_child_process", &folder, &mounts) {
            return;
        }
        assert!(fs::read(folder.join("store.db")).ok() == before, "the file is as it was after {mounts:?}");
        if exists {
            assert_note_is_there(&folder).await;
        }
    }
}

#[tokio::test]
async fn read_only_in_a_child_process() {
    let Some(folder) = namespace::folder_of_child() else { return };
    let error = try_open(&folder).await.unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}: {error:?}");
    let text = error.to_string();
    assert!(text.contains("store.db") && text.contains("check the permissions"), "{text}");
}
