//! Several processes on one schema. They are several stores here, each with connections of its own, which is
//! all the database sees of a process.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use pilothouse_store::{Conflict, Error, LeaseName, Precondition, Revision, Transaction};
use serde_json::json;

use crate::fixture::{Fixture, Kind, ada, assert_sound, bob, id, notes, vault};

#[tokio::test]
async fn a_reader_is_woken_by_another_process() {
    let Some(fixture) = Fixture::new(Kind::Postgres) else { return };
    let (writer, reader) = (fixture.store().await, fixture.store().await);
    let mut feed = reader.container_feed(&notes(), Revision::ZERO).unwrap();
    for n in 0..20 {
        let waiting = feed.next();
        let write = async { writer.create(&notes(), &ada(), id(&n.to_string()), &json!(n)).await };
        // Far below the time after which a poll would find it.
        let limit = Duration::from_secs(4);
        let (seen, written) = futures::join!(tokio::time::timeout(limit, waiting), write);
        let written = written.unwrap();
        let batch = seen.expect("woken by the notification").unwrap();
        assert_eq!((batch.changes.len(), batch.changes[0].revision), (1, written.revision));
    }
}

#[tokio::test]
async fn a_batch_too_large_to_announce_wakes_everybody() {
    let Some(fixture) = Fixture::new(Kind::Postgres) else { return };
    let (writer, reader) = (fixture.store().await, fixture.store().await);
    let last = pilothouse_store::Partition::try_new(format!("{}-99", "long".repeat(50))).unwrap();
    let mut feed = reader.partition_feed(&last, Revision::ZERO);
    let writes = (0..100).map(|n| {
        let partition = pilothouse_store::Partition::try_new(format!("{}-{n}", "long".repeat(50))).unwrap();
        let writer = writer.clone();
        async move { writer.create(&notes(), &partition, id("x"), &json!(n)).await.unwrap() }
    });
    let (seen, _) =
        futures::join!(tokio::time::timeout(Duration::from_secs(4), feed.next()), join_all(writes));
    assert_eq!(seen.expect("woken").unwrap().changes.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_that_write_at_once_agree_on_one_history() {
    let Some(fixture) = Fixture::new(Kind::Postgres) else { return };
    let stores = [fixture.store().await, fixture.store().await, fixture.store().await];
    let mut follower = fixture.store().await.container_feed(&notes(), Revision::ZERO).unwrap();
    let (writers, each) = (8, 40);
    let writing = (0..writers).map(|writer| {
        let store = stores[writer % stores.len()].clone();
        let partition = if writer % 2 == 0 { ada() } else { bob() };
        async move {
            for n in 0..each {
                let mut transaction = Transaction::new(partition.clone());
                let name = format!("{writer}-{n}");
                transaction.create(&notes(), id(&name), &json!(n)).unwrap();
                transaction
                    .put(&vault(), id(&format!("last-{writer}")), Precondition::Any, &json!(n))
                    .unwrap();
                store.commit(&transaction).await.unwrap();
            }
        }
    });
    let following = async {
        let mut seen = Vec::new();
        while seen.len() < writers * each {
            seen.extend(follower.next().await.unwrap().changes);
        }
        seen
    };
    let (_, seen) = futures::join!(join_all(writing), following);
    let revisions: Vec<_> = seen.iter().map(|change| change.revision).collect();
    assert!(revisions.is_sorted_by(|a, b| a < b), "each transaction once, in order");
    let mut next: BTreeMap<String, usize> = BTreeMap::new();
    for change in &seen {
        let (writer, n) = change.id.as_str().split_once('-').unwrap();
        let expected = next.entry(writer.to_owned()).or_default();
        assert_eq!(n.parse::<usize>().unwrap(), *expected, "a writer's own order");
        *expected += 1;
    }
    assert_sound(&stores[0]).await;
}

/// Two processes want the same lease all the time and keep it too long; whoever has it counts, fenced by it. No
/// count may be lost or doubled, whatever each of them believes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fenced_counter_never_has_two_writers() {
    let Some(fixture) = Fixture::new(Kind::Postgres) else { return };
    let stores = [fixture.store().await, fixture.store().await];
    stores[0].create(&notes(), &ada(), id("log"), &json!([])).await.unwrap();
    let name = LeaseName::try_new("counter").unwrap();
    let working = stores.iter().enumerate().map(|(worker, store)| {
        let name = &name;
        async move {
            let (mut accepted, mut refused) = (0, 0);
            while accepted < 15 {
                let holder = format!("worker-{worker}");
                let lease = store.lease_wait(name, &holder, Duration::from_millis(30)).await.unwrap();
                // Longer than the lease lasts, every other time.
                for _ in 0..3 {
                    let document = store.get(&notes(), &ada(), &id("log")).await.unwrap().unwrap();
                    let mut log: Vec<u64> = document.parse().unwrap();
                    tokio::time::sleep(Duration::from_millis(12)).await;
                    log.push(lease.token());
                    let mut transaction = Transaction::new(ada());
                    // No etag: only the fence stands between two writers.
                    transaction.put(&notes(), id("log"), Precondition::Any, &log).unwrap();
                    transaction.fenced_by(&lease);
                    match store.commit(&transaction).await {
                        Ok(_) => accepted += 1,
                        Err(Error::Conflict(Conflict::LeaseLost { .. })) => refused += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            (accepted, refused)
        }
    });
    let counts = join_all(working).await;
    let document = stores[0].get(&notes(), &ada(), &id("log")).await.unwrap().unwrap();
    let log: Vec<u64> = document.parse().unwrap();
    let accepted: usize = counts.iter().map(|(accepted, _)| *accepted).sum();
    assert_eq!(log.len(), accepted, "every accepted write is there: nobody wrote over another's");
    assert!(log.is_sorted(), "tokens only grow: {log:?}");
    assert!(counts.iter().any(|(_, refused)| *refused > 0), "some were too late: {counts:?}");
}
