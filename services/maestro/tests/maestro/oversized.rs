//! Brokers that take packets up to a size.

use kube::api::{Patch, PatchParams};
use pilothouse_broker::{Authorizer, Limits};
use pilothouse_crds::find_condition;
use pilothouse_maestro_api::{Error, work_uid};
use pilothouse_test_support::eventually;
use serde_json::json;

use crate::cluster::PATIENCE;
use crate::world::{BrokerPart, CONSUMER, SOURCE, World, map, work};

const LIMIT: u32 = 64 << 10;

async fn what_is_too_large_is_refused(broker: BrokerPart, folder: &std::path::Path) {
    let world = World::with(broker, folder).await;
    let source = &world.server.source;
    source.work_create(&work("small", "1")).await.unwrap();
    world.until_map("small", Some("1")).await;

    // Whoever sends a bundle that cannot be delivered is told, and nothing has changed.
    let large = "x".repeat(LIMIT as usize);
    for refused in [
        source.work_create(&work("large", &large)).await,
        source.work_update(&work("small", &large), 1).await,
    ] {
        let Err(Error::Refused(reason)) = refused else { panic!("{refused:?}") };
        assert!(reason.contains("at most 65536") && reason.contains("split it"), "{reason}");
    }
    let bundle = async |name: &str| {
        let id = work_uid(SOURCE, CONSUMER, name).to_string();
        world.server.rest.resource_bundle_get(&id).await.unwrap()
    };
    assert!(bundle("large").await.is_none());
    assert_eq!(bundle("small").await.unwrap().version, 1);
    let mut long = work("long", "1");
    long.annotations.insert("note".to_owned(), "x".repeat(70_000));
    let refused = source.work_create(&long).await;
    assert!(matches!(&refused, Err(Error::Refused(reason)) if reason.contains("metadata")), "{refused:?}");

    // A status that cannot be sent whole is sent without what makes it large, and says so.
    let read = json!({"manifests": [map("read", "")], "manifestConfigs": [{
        "resourceIdentifier": {"group": "", "resource": "configmaps", "name": "read", "namespace": "default"},
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "data", "path": ".data"}]}],
        "updateStrategy": {"type": "CreateOnly"}}]});
    let mut wanted = work("read", "");
    wanted.bundle = serde_json::from_value(read).unwrap();
    source.work_create(&wanted).await.unwrap();
    world.until_map("read", Some("")).await;
    let grown = json!({"data": {"k": large}});
    world.maps().patch("read", &PatchParams::default(), &Patch::Merge(&grown)).await.unwrap();
    eventually("the status says what is missing", PATIENCE, || async {
        let status = bundle("read").await.and_then(|bundle| bundle.status).ok_or("no status")?;
        let manifest = status.status.resource_status.first().ok_or("no manifest")?;
        let synced = find_condition(&manifest.conditions, "StatusFeedbackSynced").ok_or("no condition")?;
        if synced.message.contains("at most 65536") && manifest.status_feedback.values.is_empty() {
            Ok(())
        } else {
            Err(format!("{synced:?}"))
        }
    })
    .await;
    // Nobody is stuck.
    source.work_update(&work("small", "2"), 1).await.unwrap();
    world.until_map("small", Some("2")).await;
}

#[tokio::test]
async fn what_is_too_large_for_our_broker_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { packet_bytes: LIMIT, ..Limits::default() };
    let config = pilothouse_broker::Config { limits, ..Default::default() };
    let broker = BrokerPart::ours_with(0, config, Authorizer::open()).await;
    what_is_too_large_is_refused(broker, folder.path()).await;
}

#[tokio::test]
async fn what_is_too_large_for_mosquitto_is_refused() {
    if !BrokerPart::has_mosquitto() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lines = format!("allow_anonymous true\nmax_packet_size {LIMIT}\n");
    let broker = BrokerPart::mosquitto_with(&lines).await;
    what_is_too_large_is_refused(broker, folder.path()).await;
}

/// Taken while the broker took more, or was not there to ask: its status says what is wrong, and nobody waits for it.
#[tokio::test]
async fn what_has_become_too_large_says_so_in_its_status() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path()).await;
    let source = world.server.source.clone();
    source.work_create(&work("first", "1")).await.unwrap();
    world.until_map("first", Some("1")).await;
    world.broker.stop().await;
    source.work_create(&work("large", &"x".repeat(LIMIT as usize))).await.unwrap();
    source.work_create(&work("second", "1")).await.unwrap();
    let limits = Limits { packet_bytes: LIMIT, ..Limits::default() };
    let config = pilothouse_broker::Config { limits, ..Default::default() };
    world.broker = BrokerPart::ours_with(world.broker.port, config, Authorizer::open()).await;
    world.until_map("second", Some("1")).await;
    let id = work_uid(SOURCE, CONSUMER, "large").to_string();
    eventually("the status says what is wrong", PATIENCE, || async {
        let bundle = world.server.rest.resource_bundle_get(&id).await.map_err(|error| error.to_string())?;
        let status = bundle.and_then(|bundle| bundle.status).ok_or("no status")?;
        let applied = find_condition(&status.status.conditions, "Applied").ok_or("no condition")?;
        if applied.reason == "BundleTooLarge" && applied.message.contains("at most 65536") {
            Ok(())
        } else {
            Err(format!("{applied:?}"))
        }
    })
    .await;
    source.work_update(&work("large", "1"), 1).await.unwrap();
    world.until_map("large", Some("1")).await;
}
