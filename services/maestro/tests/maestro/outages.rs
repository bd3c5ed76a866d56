use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use pilothouse_maestro_api::work_uid;
use pilothouse_test_support::eventually;
use serde_json::json;

use crate::cluster::PATIENCE;
use crate::world::{CONSUMER, SOURCE, Server, World, shows, start_agent, until, work};

#[tokio::test]
async fn nothing_is_lost_while_the_broker_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path()).await;
    let source = world.server.source.clone();
    let mut events = source.subscribe().await.unwrap();
    source.work_create(&work("before", "1")).await.unwrap();
    source.work_create(&work("doomed", "1")).await.unwrap();
    world.until_map("before", Some("1")).await;
    world.until_map("doomed", Some("1")).await;

    world.broker.stop().await;
    source.work_create(&work("during", "1")).await.unwrap();
    source.work_update(&work("before", "2"), 1).await.unwrap();
    source.work_delete(&work("doomed", "")).await.unwrap();
    world.broker.start_again().await;

    world.until_map("during", Some("1")).await;
    world.until_map("before", Some("2")).await;
    world.until_map("doomed", None).await;
    let mut missing = vec!["before", "during", "doomed"];
    until(&mut events, |event| {
        missing.retain(|name| {
            let is_it = event.resource_id == work_uid(SOURCE, CONSUMER, name).to_string();
            let content = if *name == "before" { "2" } else { "1" };
            let is_done = if *name == "doomed" { event.is_deleted() } else { shows(event, content) };
            !(is_it && is_done)
        });
        missing.is_empty()
    })
    .await;
}

#[tokio::test]
async fn what_a_killed_server_had_accepted_is_sent_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path()).await;
    world.server.source.work_create(&work("first", "1")).await.unwrap();
    world.until_map("first", Some("1")).await;
    // Without a broker it cannot have been sent when the server dies.
    world.broker.stop().await;
    world.server.source.work_create(&work("second", "1")).await.unwrap();
    world.server.source.work_update(&work("first", "2"), 0).await.unwrap();
    let port = world.broker.port;
    world.server.kill().await;
    world.broker.start_again().await;
    world.server = Server::start(folder.path(), port).await;

    let maps = world.maps();
    for (name, content) in [("second", "1"), ("first", "2")] {
        eventually("the object is there", PATIENCE, || async {
            let found = maps.get_opt(name).await.map_err(|error| error.to_string())?;
            let value = found.and_then(|map| map.data?.get("k").cloned());
            if value.as_deref() == Some(content) { Ok(()) } else { Err(format!("{value:?}")) }
        })
        .await;
        let id = work_uid(SOURCE, CONSUMER, name).to_string();
        eventually("the status is known", PATIENCE, || async {
            let bundle =
                world.server.rest.resource_bundle_get(&id).await.map_err(|error| error.to_string())?;
            let bundle = bundle.ok_or("no bundle")?;
            match &bundle.status {
                Some(status)
                    if status.status.is_true("Applied") && status.observed_version == bundle.version =>
                {
                    Ok(())
                }
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
}

#[tokio::test]
async fn server_and_agent_find_each_other_whoever_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start(folder.path()).await;
    world.server.source.work_create(&work("one", "1")).await.unwrap();
    world.until_map("one", Some("1")).await;
    let World { cluster, broker, agent, mut server } = world;
    server.kill().await;
    agent.unwrap().stop().await;
    broker.until_subscriptions(0).await;
    // The agent has forgotten everything, and asks when there is nobody to answer.
    let agent = Some(start_agent(&cluster, broker.port).await);
    broker.until_subscriptions(1).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    let drift = json!({"data": {"k": "drifted"}});
    maps.patch("one", &PatchParams::default(), &Patch::Merge(&drift)).await.unwrap();

    let server = Server::start(folder.path(), broker.port).await;
    let world = World { cluster, broker, agent, server };
    world.until_map("one", Some("1")).await;
}

#[tokio::test]
async fn agent_that_forgot_everything_finds_what_it_had_applied() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path()).await;
    let source = world.server.source.clone();
    let mut events = source.subscribe().await.unwrap();
    for name in ["stays", "goes"] {
        source.work_create(&work(name, "1")).await.unwrap();
        until(&mut events, |event| shows(event, "1")).await;
    }
    let before = world.until_map("stays", Some("1")).await.unwrap();

    world.agent.take().unwrap().stop().await;
    source.work_delete(&work("goes", "")).await.unwrap();
    world.restart_agent().await;
    world.until_map("goes", None).await;
    until(&mut events, |event| event.is_deleted()).await;
    // The survivor was looked at by then, or will be: a change of it is still noticed and nothing else was written.
    source.work_create(&work("new", "1")).await.unwrap();
    until(&mut events, |event| {
        event.resource_id == work_uid(SOURCE, CONSUMER, "new").to_string() && shows(event, "1")
    })
    .await;
    let after = world.until_map("stays", Some("1")).await.unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version);
    assert_eq!(after.metadata.uid, before.metadata.uid);
}
