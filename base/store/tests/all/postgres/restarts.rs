//! The server restarts, crashes and cuts connections while it is written to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use pilothouse_runtime::Shutdown;
use pilothouse_store::{
    Catalog, Conflict, Error, Location, Options, Partition, Precondition, Revision, Store, Transaction,
};
use pilothouse_test_support::environment;
use pilothouse_test_support::eventually;
use pilothouse_test_support::postgres::{self, Server, Stop};
use serde_json::json;

use crate::fixture::{assert_sound, id, notes};

const WRITERS: usize = 6;

fn partition(writer: usize) -> Partition {
    Partition::try_new(format!("writer-{}", writer % 3)).unwrap()
}

async fn open(location: &Location) -> Store {
    let catalog = Catalog::try_new([notes()]).unwrap();
    Store::open(Options::new(location.clone(), catalog, Shutdown::new())).await.unwrap()
}

/// Writes numbers in order, each once, until told to stop. A failed write is repeated only if the store says
/// that nothing was written; after an uncertain one it looks. Returns the last number.
async fn write(store: Store, writer: usize, stop: Arc<AtomicBool>) -> u64 {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut transaction = Transaction::new(partition(writer));
        transaction.create(&notes(), id(&format!("{writer}-{number}")), &json!({"n": number})).unwrap();
        transaction
            .put(&notes(), id(&format!("{writer}-last")), Precondition::Any, &json!({"n": number}))
            .unwrap();
        match store.commit(&transaction).await {
            Ok(_) => number += 1,
            Err(Error::Unavailable { .. }) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(Error::Uncertain { .. }) => {
                let name = id(&format!("{writer}-{number}"));
                let found = eventually("an answer", Duration::from_secs(60), || {
                    let store = &store;
                    let name = &name;
                    async move {
                        store.get(&notes(), &partition(writer), name).await.map_err(|error| error.to_string())
                    }
                })
                .await;
                number += u64::from(found.is_some());
            }
            Err(Error::Conflict(Conflict::Exists { id, .. })) => {
                panic!("the store said that nothing was written, and `{id}` is there");
            }
            Err(error) => panic!("{error}"),
        }
    }
    number
}

/// Follows everything, across whatever happens, and checks that nothing is missing or comes twice.
async fn follow(
    store: Store,
    until: tokio::sync::oneshot::Receiver<Revision>,
) -> BTreeMap<(String, u64), Revision> {
    let mut feed = store.container_feed(&notes(), Revision::ZERO).unwrap();
    let mut seen = BTreeMap::new();
    let mut until = std::pin::pin!(until);
    let mut end: Option<Revision> = None;
    loop {
        if end.is_some_and(|end| feed.revision() >= end) {
            return seen;
        }
        let batch = tokio::select! {
            batch = feed.next() => batch,
            revision = until.as_mut(), if end.is_none() => {
                end = Some(revision.unwrap());
                continue;
            }
        };
        match batch {
            Ok(batch) => {
                for change in batch.changes {
                    let (writer, number) = change.id.as_str().split_once('-').unwrap();
                    let Ok(number) = number.parse() else { continue };
                    let key = (writer.to_owned(), number);
                    assert!(seen.insert(key, change.revision).is_none(), "{} came twice", change.id);
                }
            }
            Err(error @ (Error::Unavailable { .. } | Error::Engine { .. })) => {
                assert!(matches!(error, Error::Unavailable { .. }), "a reader is told to try again: {error}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// `faults` answers how many connections it broke.
async fn under_load(faults: impl AsyncFnOnce(&mut Server) -> usize) {
    let Some(mut server) = Server::start(postgres::Options::default()) else { return };
    let location: Location = format!("{}?schema=documents", server.fresh_database()).parse().unwrap();
    let stores = [open(&location).await, open(&location).await];
    let stop = Arc::new(AtomicBool::new(false));
    let writers = (0..WRITERS).map(|writer| write(stores[writer % 2].clone(), writer, stop.clone()));
    let (end, until) = tokio::sync::oneshot::channel();
    let follower = follow(open(&location).await, until);
    let driving = async {
        let broken = faults(&mut server).await;
        assert!(broken > 0, "something was broken");
        // Work goes on after the last of it.
        let last = id("0-last");
        let at = async || {
            let found = stores[0].get(&notes(), &partition(0), &last).await.ok().flatten();
            found.map_or(0, |document| document.revision.number())
        };
        let before = at().await;
        eventually("writing to go on", Duration::from_secs(60), || async {
            let now = at().await;
            if now > before + 20 { Ok(()) } else { Err(now) }
        })
        .await;
        stop.store(true, Ordering::Relaxed);
    };
    let writing = async {
        let (numbers, ()) = futures::join!(join_all(writers), driving);
        end.send(stores[0].revision().await.unwrap()).unwrap();
        numbers
    };
    let (numbers, seen) = futures::join!(writing, follower);
    let total: u64 = numbers.iter().sum();
    for (writer, count) in numbers.iter().enumerate() {
        for number in 0..*count {
            assert!(
                seen.contains_key(&(writer.to_string(), number)),
                "{writer}-{number} was acknowledged and not seen"
            );
        }
    }
    assert_eq!(seen.len() as u64, total, "nothing is there that was not acknowledged");
    assert_sound(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_or_doubled_when_the_server_restarts_under_load() {
    under_load(async |server| {
        for round in 0..environment::rounds(4, 25) {
            tokio::time::sleep(Duration::from_millis(250)).await;
            let how = if round % 2 == 0 { Stop::Immediate } else { Stop::Fast };
            tokio::task::block_in_place(|| server.restart(how));
        }
        WRITERS
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_or_doubled_when_connections_are_cut_under_load() {
    under_load(async |server| {
        let mut broken = 0;
        for _ in 0..environment::rounds(40, 400) {
            tokio::time::sleep(Duration::from_millis(60)).await;
            broken += tokio::task::block_in_place(|| server.kill_connections());
        }
        broken
    })
    .await;
}
