//! A database that is restarted, and a road on which nothing gets through for a while.

use std::path::Path;
use std::time::Duration;

use pilothouse_maestro_api::work_uid;
use pilothouse_test_support::postgres::{self, Stop};
use pilothouse_test_support::{environment, eventually};

use crate::cluster::{Cluster, PATIENCE};
use crate::faults::{follow, insist};
use crate::proxy::Proxy;
use crate::world::{BrokerPart, CONSUMER, SOURCE, Server, Storage, World, start_agent, work};

/// Waits until everybody agrees that these works have this content.
async fn until_all_are(world: &World, names: &[String], content: &str) {
    for name in names {
        world.until_map(name, Some(content)).await;
        let id = work_uid(SOURCE, CONSUMER, name).to_string();
        eventually("the server knows how it is", PATIENCE, || async {
            let bundle = world.server.rest.resource_bundle_get(&id).await;
            let bundle = bundle.map_err(|error| error.to_string())?.ok_or("it is not there")?;
            let status = bundle.status.ok_or("it has no status")?;
            if status.observed_version == bundle.version && status.status.is_true("Applied") {
                Ok(())
            } else {
                Err(format!("{status:?}"))
            }
        })
        .await;
    }
}

async fn send_all(world: &World, names: &[String], round: u32) {
    for name in names {
        let (source, wanted) = (world.server.source.clone(), work(name, &round.to_string()));
        if round == 1 {
            insist(|| source.work_create(&wanted)).await;
        } else {
            insist(|| source.work_update(&wanted, i32::try_from(round).unwrap() - 1)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_that_is_restarted_in_the_middle_costs_nothing_but_time() {
    let Some(mut database) = postgres::Server::start(postgres::Options::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let broker = BrokerPart::ours(0).await;
    let cluster = Cluster::start().await;
    let (histories, _following) = follow(&cluster).await;
    let storage = Storage::Postgres(database.fresh_database());
    let server = Server::start_with(folder.path(), broker.port, &storage).await;
    let agent = Some(start_agent(&cluster, broker.port).await);
    let world = World { cluster, broker, agent, server };
    let names: Vec<_> = (0..6).map(|number| format!("w{number}")).collect();
    let rounds = u32::try_from(environment::rounds(3, 12)).unwrap();
    for round in 1..=rounds {
        let how = if round % 2 == 0 { Stop::Fast } else { Stop::Immediate };
        let restarting = tokio::task::spawn_blocking(move || {
            database.restart(how);
            database
        });
        send_all(&world, &names, round).await;
        database = restarting.await.unwrap();
    }
    until_all_are(&world, &names, &rounds.to_string()).await;
    for (name, history) in histories.lock().unwrap().iter() {
        assert!(history.is_sorted_by(|one, other| one < other), "{name} went back: {history:?}");
    }
}

/// Longer than anybody's patience in a long run, so that connections are given up; else shorter.
fn silence() -> Duration {
    Duration::from_secs(u64::try_from(environment::rounds(3, 150)).unwrap())
}

async fn silent_road(broker: BrokerPart, folder: &Path) {
    let proxy = Proxy::start(broker.port, 1).await;
    proxy.calm();
    let cluster = Cluster::start().await;
    let (histories, _following) = follow(&cluster).await;
    let server = Server::start(folder, proxy.port).await;
    let agent = Some(start_agent(&cluster, proxy.port).await);
    let mut world = World { cluster, broker, agent, server };
    let names: Vec<_> = (0..4).map(|number| format!("w{number}")).collect();
    send_all(&world, &names, 1).await;
    until_all_are(&world, &names, "1").await;
    proxy.silence(true);
    send_all(&world, &names, 2).await;
    tokio::time::sleep(silence()).await;
    proxy.silence(false);
    until_all_are(&world, &names, "2").await;

    // And one that is closed.
    world.broker.stop().await;
    send_all(&world, &names, 3).await;
    world.broker.start_again().await;
    until_all_are(&world, &names, "3").await;
    for (name, history) in histories.lock().unwrap().iter() {
        assert_eq!(*history, [1, 2, 3], "{name}");
    }
}

#[tokio::test]
async fn nothing_is_lost_on_a_silent_road_to_our_broker() {
    let folder = tempfile::tempdir().unwrap();
    silent_road(BrokerPart::ours(0).await, folder.path()).await;
}

#[tokio::test]
async fn nothing_is_lost_on_a_silent_road_to_mosquitto() {
    if !BrokerPart::has_mosquitto() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    silent_road(BrokerPart::mosquitto().await, folder.path()).await;
}
