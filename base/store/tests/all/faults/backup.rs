//! Copies made while others write.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use pilothouse_store::Error;
use serde_json::json;

use super::verify::Ledger;
use super::workload::{WRITERS, Writer};
use super::writer::commit;
use super::{open, utf8};
use crate::fixture::{ada, id, notes};

#[tokio::test]
async fn a_backup_made_beside_writers_is_a_store_with_everything_acknowledged_before() {
    let seed = super::seed();
    let folder = tempfile::tempdir().unwrap();
    let folder = utf8(&folder);
    let copies = tempfile::tempdir().unwrap();
    let copies = utf8(&copies);
    let store = open(&folder).await;
    let done = AtomicBool::new(false);
    // Nothing runs in parallel here, so what a writer has counted when a backup begins was acknowledged by then.
    let counts: [std::cell::Cell<u64>; WRITERS] = Default::default();
    let writing = join_all((0..WRITERS).map(|number| {
        let (store, done, count) = (&store, &done, &counts[number]);
        async move {
            let mut writer = Writer::new(seed, number);
            while !done.load(Ordering::Relaxed) {
                commit(store, &mut writer, number).await;
                count.set(writer.number());
            }
        }
    }));
    let backing_up = async {
        let mut expected = Vec::new();
        for copy in 0..6 {
            let target = copies.join(copy.to_string());
            fs::create_dir(&target).unwrap();
            while counts.iter().map(std::cell::Cell::get).sum::<u64>() < 10 * copy {
                tokio::task::yield_now().await;
            }
            expected.push((target.clone(), counts.each_ref().map(std::cell::Cell::get)));
            store.backup(target.join("store.db")).await.unwrap();
        }
        done.store(true, Ordering::Relaxed);
        expected
    };
    let (_, expected) = futures::future::join(writing, backing_up).await;

    for (target, before) in expected {
        fs::copy(folder.join("store.key"), target.join("store.key")).unwrap();
        let names: Vec<_> =
            target.read_dir_utf8().unwrap().map(|entry| entry.unwrap().file_name().to_owned()).collect();
        assert_eq!(names.len(), 2, "only the copy and the key: {names:?}");
        let copy = open(&target).await;
        let mut ledger = Ledger::new(seed);
        ledger
            .verify_at_least(&copy, before)
            .await
            .unwrap_or_else(|error| panic!("seed {seed}, {target}: {error:#}"));
        // It is a store like any other.
        let mut writer = Writer::after(seed, 0, ledger.last[0]);
        commit(&copy, &mut writer, 0).await;
        copy.close().await;
    }
}

#[tokio::test]
async fn a_backup_overwrites_nothing_and_names_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = utf8(&folder);
    let store = open(&folder).await;
    store.create(&notes(), &ada(), id("note"), &json!({})).await.unwrap();
    let target = folder.join("backup.db");
    fs::write(&target, "precious").unwrap();
    let error = store.backup(&target).await.unwrap_err();
    assert!(
        matches!(error, Error::Invalid { .. }) && error.to_string().contains("exists already"),
        "{error}"
    );
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    // Its own file is one that exists, too.
    let error = store.backup(folder.join("store.db")).await.unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");

    let missing = folder.join("missing/backup.db");
    let error = store.backup(&missing).await.unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }), "{error}: {error:?}");
    assert!(error.to_string().contains(missing.as_str()), "{error}");
    assert!(!folder.join("missing").exists());
    assert!(store.get(&notes(), &ada(), &id("note")).await.unwrap().is_some(), "the store goes on");
}
