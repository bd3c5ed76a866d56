//! Several servers over one database share the work.

use std::collections::BTreeMap;
use std::path::Path;

use pilothouse_http::ListenerConfig;
use pilothouse_maestro::server;
use pilothouse_maestro_api::work_uid;
use pilothouse_test_support::{eventually, postgres};

use crate::cluster::{Cluster, PATIENCE};
use crate::packets::Recorder;
use crate::world::{
    BrokerPart, CONSUMER, SOURCE, Server, Storage, World, broker_config, server_config, start_agent, work,
};

/// Consumers that nobody listens for: enough that each replica has some.
const CONSUMERS: usize = 12;

async fn replica(folder: &Path, storage: &Storage, broker: u16, name: &str) -> Server {
    let mut consumers: Vec<_> = (0..CONSUMERS).map(|number| format!("cluster-{number}")).collect();
    consumers.push(CONSUMER.to_owned());
    let config = server::Config {
        broker: broker_config(broker, name),
        replica: Some(name.to_owned()),
        consumers,
        health: Some(ListenerConfig::loopback(0)),
        ..server_config([0, 0])
    };
    Server::configured(folder, storage, config).await
}

/// Waits until a replica knows of so many, itself included.
async fn until_replicas(server: &Server, count: usize) {
    eventually("replicas know of each other", PATIENCE, || async {
        let health = &server.inside.as_ref().unwrap().health;
        let said = health.verdict("maestro-replicas").map(|verdict| verdict.to_string()).unwrap_or_default();
        if said.contains(&format!("{count} replicas")) { Ok(()) } else { Err(said) }
    })
    .await;
}

/// A number that a replica tells about itself.
pub(crate) fn number(server: &Server, line: &str) -> u64 {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &server.inside.as_ref().unwrap().registry).unwrap();
    let value = text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
    value.unwrap_or_default()
}

/// Waits until nothing is left to be sent, as far as a replica knows.
pub(crate) async fn until_sent(server: &Server) {
    eventually("everything is sent", PATIENCE, || async {
        match number(server, "workqueue_depth ") {
            0 => Ok(()),
            left => Err(format!("{left} are left")),
        }
    })
    .await;
}

#[tokio::test]
async fn each_bundle_is_sent_by_one_replica_and_those_of_a_killed_one_by_another() {
    let Some(database) = postgres::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::Postgres(database.fresh_database());
    let broker = BrokerPart::ours(0).await;
    let first = replica(folder.path(), &storage, broker.port, "maestro-0").await;
    let mut second = replica(folder.path(), &storage, broker.port, "maestro-1").await;
    for server in [&first, &second] {
        until_replicas(server, 2).await;
    }
    let mut recorder = Recorder::start(broker.port).await;
    let for_consumer = |number: usize, content: &str| {
        let mut wanted = work(&format!("w{number}"), content);
        wanted.consumer = format!("cluster-{}", number % CONSUMERS);
        wanted
    };
    for number in 0..4 * CONSUMERS {
        let server = if number % 2 == 0 { &first } else { &second };
        server.source.work_create(&for_consumer(number, "1")).await.unwrap();
    }
    let mut sent: BTreeMap<String, usize> = BTreeMap::new();
    while sent.len() < 4 * CONSUMERS {
        *sent.entry(recorder.next_id("spec.create_request").await).or_default() += 1;
    }
    until_sent(&first).await;
    for id in recorder.rest("spec.create_request") {
        *sent.entry(id).or_default() += 1;
    }
    assert!(sent.values().all(|count| *count == 1), "sent more than once: {sent:?}");
    let shares =
        [&first, &second].map(|server| number(server, r#"cloudevents_sent_total{subresource="spec"}"#));
    assert!(shares.iter().all(|share| *share > 0), "one of them had nothing to do: {shares:?}");

    // What the second had to send when it died is sent by the first, whoever accepted it.
    second.kill().await;
    for number in 0..CONSUMERS {
        first.source.work_update(&for_consumer(number, "2"), 0).await.unwrap();
    }
    let mut sent = std::collections::BTreeSet::new();
    while sent.len() < CONSUMERS {
        sent.insert(recorder.next_id("spec.update_request").await);
    }
    until_replicas(&first, 1).await;
    until_sent(&first).await;
}

#[tokio::test]
async fn agent_is_served_while_replicas_come_and_go() {
    let Some(database) = postgres::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::Postgres(database.fresh_database());
    let broker = BrokerPart::ours(0).await;
    let cluster = Cluster::start().await;
    let server = replica(folder.path(), &storage, broker.port, "maestro-0").await;
    let agent = Some(start_agent(&cluster, broker.port).await);
    let mut other = replica(folder.path(), &storage, broker.port, "maestro-1").await;
    let mut world = World { cluster, broker, agent, server };
    let names: Vec<_> = (0..8).map(|number| format!("w{number}")).collect();
    for (index, name) in names.iter().enumerate() {
        let server = if index % 2 == 0 { &world.server } else { &other };
        server.source.work_create(&work(name, "1")).await.unwrap();
        if index == 3 {
            // In the middle of it, without a word.
            other.kill().await;
            other = replica(folder.path(), &storage, world.broker.port, "maestro-2").await;
        }
        if index == 5 {
            // The agent forgets everything while nobody may be there to tell it.
            std::mem::swap(&mut world.server, &mut other);
            other.kill().await;
            world.agent.take().unwrap().stop().await;
            world.restart_agent().await;
            other = replica(folder.path(), &storage, world.broker.port, "maestro-3").await;
        }
    }
    for name in &names {
        world.until_map(name, Some("1")).await;
        let id = work_uid(SOURCE, CONSUMER, name).to_string();
        eventually("the server knows how it is", PATIENCE, || async {
            let bundle =
                world.server.rest.resource_bundle_get(&id).await.map_err(|error| error.to_string())?;
            let status = bundle.and_then(|bundle| bundle.status).ok_or("no status")?;
            if status.status.is_true("Applied") { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
    }
    drop(other);
}
