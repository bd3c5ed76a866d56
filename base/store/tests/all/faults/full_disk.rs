//! A disk without room: writes are refused in words, nothing is lost, reading goes on, and room is enough to go on
//! writing.

use std::fs;
use std::io::Write as _;

use camino::Utf8Path;
use futures::future::join_all;
use pilothouse_store::{Error, Store};
use serde_json::json;

use super::namespace;
use crate::fixture::{ada, assert_sound, id, notes};

/// How often the disk is filled.
const ROUNDS: u32 = 3;

#[test]
fn a_full_disk_refuses_writes_and_takes_them_again_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let folder = super::utf8(&folder);
    // Different sizes end in different places: in the log, in the database when the log is folded in, in the
    // memory shared with readers.
    for kilobytes in [3_500, 4_200, 6_000, 40_000] {
        let mounts = format!("mount -t tmpfs -o size={kilobytes}k tmpfs \"$1\"");
        if !namespace::run("faults::full_disk::full_disk_in_a_child_process", &folder, &mounts) {
            return;
        }
    }
}

/// What was acknowledged, and what was refused.
#[derive(Default)]
struct Written {
    acknowledged: Vec<u32>,
    refused: Vec<u32>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_in_a_child_process() {
    let Some(folder) = namespace::folder_of_child() else { return };
    // An eighth of the disk is removed in each round to make room, and half of it at last: so much that the log
    // can always be folded into the database, which takes as much again.
    let disk = nix::sys::statvfs::statvfs(folder.as_std_path()).unwrap();
    let size = usize::try_from(disk.blocks() * disk.fragment_size()).unwrap();
    let ballast = |round: u32| folder.join(format!("ballast-{round}"));
    for round in 0..ROUNDS {
        fs::write(ballast(round), vec![1; size / 8]).unwrap();
    }
    let spare = folder.join("spare");
    fs::write(&spare, vec![1; size / 2]).unwrap();
    let store = super::open(&folder).await;
    let mut written = Written::default();
    for round in 0..ROUNDS {
        fill(&store, &mut written).await;
        assert_all_there(&store, &written).await;
        assert_sound(&store).await;

        let before = written.acknowledged.len();
        fs::remove_file(ballast(round)).unwrap();
        write(&store, &mut written, 3).await;
        assert_eq!(written.acknowledged.len(), before + 3, "there is room, in round {round}");
    }
    store.close().await;

    // A full disk keeps nobody from opening, or says that it does.
    take_all_room(&folder);
    match super::try_open(&folder).await {
        Ok(store) => {
            assert_all_there(&store, &written).await;
            store.close().await;
        }
        Err(error) => assert_full(&error),
    }
    fs::remove_file(spare).unwrap();
    let store = super::open(&folder).await;
    assert_all_there(&store, &written).await;
    assert_sound(&store).await;
}

/// Writes until the disk is full, and then some more.
async fn fill(store: &Store, written: &mut Written) {
    let refused = written.refused.len();
    let mut rounds = 0;
    while written.refused.len() == refused {
        write(store, written, 4).await;
        rounds += 1;
        assert!(rounds < 10_000, "the disk is never full");
    }
    write(store, written, 4).await;
}

/// Writes some documents at once.
async fn write(store: &Store, written: &mut Written, count: u32) {
    let next = u32::try_from(written.acknowledged.len() + written.refused.len()).unwrap();
    let outcomes = join_all((next..next + count).map(|number| async move {
        let body = json!({"number": number, "text": "x".repeat(4_000)});
        (number, store.create(&notes(), &ada(), id(&number.to_string()), &body).await)
    }));
    for (number, outcome) in outcomes.await {
        match outcome {
            Ok(_) => written.acknowledged.push(number),
            Err(error) => {
                assert_full(&error);
                written.refused.push(number);
            }
        }
    }
}

fn assert_full(error: &Error) {
    assert!(matches!(error, Error::Full { .. }), "{error}: {error:?}");
    assert!(error.is_retryable());
    assert!(error.to_string().contains("free some space"), "{error}");
}

async fn assert_all_there(store: &Store, written: &Written) {
    for number in &written.acknowledged {
        let document = store.get(&notes(), &ada(), &id(&number.to_string())).await.unwrap();
        let body: serde_json::Value = document.expect("what was acknowledged is there").parse().unwrap();
        assert_eq!(body["number"], *number);
    }
    for number in &written.refused {
        let document = store.get(&notes(), &ada(), &id(&number.to_string())).await.unwrap();
        assert!(document.is_none(), "what was refused is not there: {number}");
    }
}

fn take_all_room(folder: &Utf8Path) {
    let mut rest = fs::File::create(folder.join("rest")).unwrap();
    for size in [4096, 64, 1] {
        while rest.write_all(&vec![1; size]).is_ok() {}
    }
}
