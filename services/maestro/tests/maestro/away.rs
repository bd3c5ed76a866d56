//! What is said while the server's database, its broker or the agent's cluster is away. The broker has taken it, so nobody says
//! it again; and it is not forgotten.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::api::{Patch, PatchParams};
use pilothouse_maestro_api::{Work, feedback, work_uid};
use pilothouse_test_support::eventually;
use pilothouse_test_support::postgres::{self, Stop};
use serde_json::json;

use crate::cluster::{Cluster, PATIENCE};
use crate::packets::{Recorder, Seen};
use crate::proxy::Proxy;
use crate::replicas::number;
use crate::world::{BrokerPart, CONSUMER, SOURCE, Server, Storage, World, start_agent, work};

/// A work whose object is made once and is everybody's from then on; what it becomes is fed back.
fn made_once(name: &str) -> Work {
    let mut wanted = work(name, "1");
    let mut bundle = serde_json::to_value(&wanted.bundle).unwrap();
    bundle["manifestConfigs"][0]["updateStrategy"] = json!({"type": "CreateOnly"});
    wanted.bundle = serde_json::from_value(bundle).unwrap();
    wanted
}

fn id(name: &str) -> String {
    work_uid(SOURCE, CONSUMER, name).to_string()
}

/// Waits until the server knows that the object of a work has this content.
async fn until_told(world: &World, name: &str, content: &str) {
    let (id, expected) = (id(name), json!({"k": content}));
    eventually("the server knows what has become of it", PATIENCE, || async {
        let bundle = world.server.rest.resource_bundle_get(&id).await;
        let bundle = bundle.map_err(|error| error.to_string())?.ok_or("it is not there")?;
        let status = bundle.status.ok_or("it has no status")?.status;
        match status.resource_status.first().and_then(|manifest| feedback(manifest, "data")) {
            Some(found) if found == expected => Ok(()),
            _ => Err(format!("{status:?}")),
        }
    })
    .await;
}

async fn change(world: &World, name: &str, content: &str) {
    let patch = Patch::Merge(json!({"data": {"k": content}}));
    world.maps().patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// The types of these events, as far as they have that in them.
fn kinds(heard: &[Seen], part: &str) -> Vec<String> {
    heard.iter().map(Seen::kind).filter(|kind| kind.contains(part)).collect()
}

/// Waits until the server has tried so often, in vain, to deal with what an agent said.
async fn until_put_off(server: &Server, times: u64) {
    eventually("the server tries in vain", PATIENCE, || async {
        let count = number(server, "put_off_total ");
        if count >= times { Ok(()) } else { Err(count) }
    })
    .await;
}

/// A world whose server has a database that may go away, and a road of its own to the broker.
async fn world_over(database: &postgres::Server, broker: BrokerPart, road: u16, folder: &Path) -> World {
    let cluster = Cluster::start().await;
    let storage = Storage::Postgres(database.fresh_database());
    let server = Server::start_with(folder, road, &storage).await;
    let agent = Some(start_agent(&cluster, broker.port).await);
    World { cluster, broker, agent, server }
}

/// Stops a database. It takes a moment, in which the others go on.
async fn stopped(mut database: postgres::Server) -> postgres::Server {
    tokio::task::spawn_blocking(move || {
        database.stop(Stop::Fast);
        database
    })
    .await
    .unwrap()
}

async fn started(mut database: postgres::Server) -> postgres::Server {
    tokio::task::spawn_blocking(move || {
        database.start_again();
        database
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn status_that_the_database_could_not_take_arrives_when_it_is_back() {
    let Some(database) = postgres::Server::start(postgres::Options::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let broker = BrokerPart::ours(0).await;
    let mut recorder = Recorder::start(broker.port).await;
    let storage = Storage::Postgres(database.fresh_database());
    let server = Server::start_with(folder.path(), broker.port, &storage).await;
    let world = World::acquainted(broker, server, &mut recorder).await;
    world.server.source.work_create(&made_once("one")).await.unwrap();
    until_told(&world, "one", "1").await;

    let before = recorder.so_far().len();
    let database = stopped(database).await;
    change(&world, "one", "2").await;
    until_put_off(&world.server, 2).await;
    let heard = recorder.so_far().split_off(before);
    let _database = started(database).await;
    until_told(&world, "one", "2").await;

    // Up to then nobody had asked, so nobody had connected anew; and it was said once, before the database was back.
    assert_eq!(kinds(&heard, "resync"), Vec::<String>::new());
    let reports = |heard: &[Seen]| {
        let about: Vec<_> = heard.iter().filter(|seen| seen.is_about(&id("one"))).cloned().collect();
        kinds(&about, ".status.")
    };
    assert_eq!(reports(&heard).len(), 1);

    world.server.source.work_create(&made_once("two")).await.unwrap();
    until_told(&world, "two", "1").await;
    change(&world, "one", "3").await;
    until_told(&world, "one", "3").await;
    let reports = reports(&recorder.so_far().split_off(before));
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert!(
        reports.iter().all(|kind| kind.ends_with("update_request")),
        "it was not said again: {reports:?}"
    );
    // One that waits is no reason for the broker to leave others out, so nobody had to be asked.
    let questions = kinds(&recorder.so_far().split_off(before), "resync");
    assert_eq!(questions, Vec::<String>::new());
}

/// The broker keeps a few, and leaves out the others without a word.
#[tokio::test]
async fn statuses_that_the_broker_could_not_keep_meanwhile_are_asked_for() {
    /// More than the 256 that are on their way to a server at once and the 5 that wait.
    const WORKS: usize = 300;
    if !BrokerPart::has_mosquitto() {
        return;
    }
    let Some(database) = postgres::Server::start(postgres::Options::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let broker = BrokerPart::mosquitto_with("allow_anonymous true\nmax_queued_messages 5\n").await;
    let road = broker.port;
    let world = world_over(&database, broker, road, folder.path()).await;
    let names: Vec<_> = (0..WORKS).map(|number| format!("w{number}")).collect();
    for name in &names {
        world.server.source.work_create(&made_once(name)).await.unwrap();
    }
    for name in &names {
        until_told(&world, name, "1").await;
    }
    let database = stopped(database).await;
    for name in &names {
        change(&world, name, "2").await;
    }
    until_put_off(&world.server, 1).await;
    // The broker has told others of the last of them, had there been room for it.
    let mut recorder = Recorder::start(world.broker.port).await;
    change(&world, &names[0], "3").await;
    recorder.find(&("last", "status.update_request", |seen| seen.text().contains(r#"\"k\":\"3\""#))).await;
    let _database = started(database).await;
    until_told(&world, &names[0], "3").await;
    for name in &names[1..] {
        until_told(&world, name, "2").await;
    }
}

#[tokio::test]
async fn agent_that_asks_while_the_database_is_away_is_answered_when_it_is_back() {
    let Some(database) = postgres::Server::start(postgres::Options::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let broker = BrokerPart::ours(0).await;
    let road = broker.port;
    let mut world = world_over(&database, broker, road, folder.path()).await;
    world.server.source.work_create(&work("one", "1")).await.unwrap();
    until_told(&world, "one", "1").await;

    // It forgets everything, and only the server can tell it that this is not as it should be.
    world.agent.take().unwrap().stop().await;
    change(&world, "one", "drifted").await;
    let database = stopped(database).await;
    world.restart_agent().await;
    until_put_off(&world.server, 1).await;
    let _database = started(database).await;
    world.until_map("one", Some("1")).await;
}

#[tokio::test]
async fn server_that_connects_while_the_database_is_away_asks_when_it_is_back() {
    let Some(database) = postgres::Server::start(postgres::Options::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let broker = BrokerPart::ours(0).await;
    let road = Proxy::start(broker.port, 1).await;
    road.calm();
    let world = world_over(&database, broker, road.port, folder.path()).await;
    world.server.source.work_create(&made_once("one")).await.unwrap();
    until_told(&world, "one", "1").await;

    road.close(true);
    world.broker.until_subscriptions(1).await;
    let mut recorder = Recorder::start(world.broker.port).await;
    change(&world, "one", "2").await;
    recorder.find(&("lost", "status.update_request", |seen| seen.text().contains(r#"\"k\":\"2\""#))).await;
    let database = stopped(database).await;
    road.close(false);
    until_put_off(&world.server, 1).await;
    let _database = started(database).await;
    until_told(&world, "one", "2").await;
}

/// A client of the same cluster, which it reaches or not.
fn client_of(cluster: &Cluster, is_away: &Arc<AtomicBool>) -> kube::Client {
    let (inner, is_away) = (cluster.client.clone(), is_away.clone());
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (inner, is_away) = (inner.clone(), is_away.load(Ordering::SeqCst));
        async move {
            if is_away {
                Err("the cluster is away".into())
            } else {
                inner.send(request).await.map_err(tower::BoxError::from)
            }
        }
    });
    kube::Client::new(service, "default")
}

/// What was left behind can be found in the cluster only.
#[tokio::test]
async fn agent_that_comes_before_its_cluster_asks_about_what_was_left_behind_when_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path()).await;
    let source = world.server.source.clone();
    for name in ["wanted", "orphan"] {
        source.work_create(&work(name, "1")).await.unwrap();
        until_told(&world, name, "1").await;
    }
    world.agent.take().unwrap().stop().await;
    source.work_delete(&work("orphan", "")).await.unwrap();
    crate::restart::tell_that_it_is_gone(world.broker.port, &id("orphan")).await;
    world.until_forgotten("orphan").await;

    let is_away = Arc::new(AtomicBool::new(true));
    let mut recorder = Recorder::start(world.broker.port).await;
    let client = client_of(&world.cluster, &is_away);
    let store = crate::world::forgetful_store().await;
    let agent = crate::world::start_remembering_agent(&client, world.broker.port, "maestro", store).await;
    world.agent = Some(agent);
    recorder.find(&("question", "spec.resync_request", |_| true)).await;
    is_away.store(false, Ordering::SeqCst);
    world.until_map("orphan", None).await;
    world.until_map("wanted", Some("1")).await;
}

/// Of statuses that it has missed, a server asks so that every question goes through.
#[tokio::test]
async fn server_asks_in_parts_where_the_broker_takes_small_packets_only() {
    const LIMIT: u32 = 8 << 10;
    const WORKS: usize = 100;
    let folder = tempfile::tempdir().unwrap();
    let limits = pilothouse_broker::Limits { packet_bytes: LIMIT, ..Default::default() };
    let config = pilothouse_broker::Config { limits, ..Default::default() };
    let broker = BrokerPart::ours_with(0, config, pilothouse_broker::Authorizer::open()).await;
    let road = Proxy::start(broker.port, 1).await;
    road.calm();
    let server = Server::start(folder.path(), road.port).await;
    let ids: BTreeSet<_> = (0..WORKS).map(|number| id(&format!("w{number}"))).collect();
    for number in 0..WORKS {
        server.source.work_create(&work(&format!("w{number}"), "1")).await.unwrap();
    }
    let mut recorder = Recorder::start(broker.port).await;
    road.close(true);
    broker.until_subscriptions(1).await;
    road.close(false);
    let asked = |recorder: &mut Recorder| -> BTreeSet<String> {
        let all = recorder.so_far();
        let questions = all.iter().filter(|seen| seen.kind().ends_with("status.resync_request"));
        let named = |text: String| {
            ids.iter().filter(move |id| text.contains(id.as_str())).cloned().collect::<Vec<_>>()
        };
        questions.flat_map(|seen| named(seen.text())).collect()
    };
    eventually("everything was asked for", PATIENCE, || {
        let asked = asked(&mut recorder).len();
        async move { if asked == WORKS { Ok(()) } else { Err(asked) } }
    })
    .await;
}
