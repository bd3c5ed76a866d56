use http::{Method, StatusCode};
use kube::api::{Patch, PatchParams};
use pilothouse_http::ClientBuilder;
use pilothouse_maestro_api::{Error, work_uid};
use pilothouse_test_support::requirement::Requirement;
use serde_json::{Value, json};

use crate::cluster::PATIENCE;
use crate::world::{BrokerPart, CONSUMER, SOURCE, World, map, shows, until, work};

/// From the source to the cluster and back, and out again.
async fn story(world: &World) {
    let source = &world.server.source;
    let mut events = source.subscribe().await.unwrap();
    source.work_create(&work("one", "1")).await.unwrap();
    world.until_map("one", Some("1")).await;
    let event = until(&mut events, |event| shows(event, "1")).await;
    let id = work_uid(SOURCE, CONSUMER, "one").to_string();
    assert_eq!((event.resource_id.as_str(), event.version), (id.as_str(), 1));
    assert!(event.status.is_true("Available"));
    assert_eq!(event.metadata.unwrap()["name"], "one", "the source's own metadata comes back");
    assert_eq!(event.bundle.unwrap().manifests, [map("one", "1")]);
    assert_eq!(event.correlation_id.as_deref(), Some("correlation-1"));
    let twice = source.work_create(&work("one", "1")).await;
    assert!(matches!(twice, Err(Error::Conflict(_))), "{twice:?}");

    // Somebody else changes the object: it is repaired.
    let drift = json!({"data": {"k": "drifted"}});
    world.maps().patch("one", &PatchParams::default(), &Patch::Merge(&drift)).await.unwrap();
    world.until_map("one", Some("1")).await;

    let stale = source.work_update(&work("one", "2"), 7).await;
    assert!(matches!(stale, Err(Error::Conflict(_))), "{stale:?}");
    source.work_update(&work("one", "2"), 1).await.unwrap();
    world.until_map("one", Some("2")).await;
    let event = until(&mut events, |event| event.version == 2 && shows(event, "2")).await;
    assert!(event.status_hash.is_some() && event.sequence_id.is_some());

    source.work_delete(&work("one", "")).await.unwrap();
    let last = until(&mut events, |event| event.is_deleted()).await;
    assert_eq!(last.resource_id, id);
    // There is nothing further to hear, so whoever looks now must find it gone.
    assert!(world.server.rest.resource_bundle_get(&id).await.unwrap().is_none());
    world.until_map("one", None).await;
}

#[tokio::test]
async fn bundle_is_applied_reported_changed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start(folder.path()).await;
    story(&world).await;
}

#[tokio::test]
async fn the_same_works_with_mosquitto_in_between() {
    const MOSQUITTO: Requirement = Requirement::new("mosquitto", "mosquitto");
    if !std::path::Path::new("/usr/sbin/mosquitto").exists() {
        return MOSQUITTO.missing();
    }
    let folder = tempfile::tempdir().unwrap();
    let world = World::with(BrokerPart::mosquitto(folder.path()).await, folder.path()).await;
    story(&world).await;
}

#[tokio::test]
async fn rest_shows_what_is_known_and_finds_it_by_label() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start(folder.path()).await;
    let (source, rest) = (&world.server.source, &world.server.rest);
    let mut events = source.subscribe().await.unwrap();
    for name in ["a", "b"] {
        source.work_create(&work(name, "1")).await.unwrap();
    }
    until(&mut events, |event| {
        event.resource_id == work_uid(SOURCE, CONSUMER, "a").to_string() && shows(event, "1")
    })
    .await;

    let search = "payload->'metadata'->'labels'->>'api.openshift.com/id'='a'";
    let found = rest.resource_bundle_search(search).await.unwrap();
    assert_eq!(found.len(), 1);
    let bundle = &found[0];
    assert_eq!((bundle.version, bundle.consumer_name.as_str()), (1, CONSUMER));
    assert_eq!(bundle.manifests, [map("a", "1")]);
    let status = bundle.status.as_ref().unwrap();
    assert_eq!(status.observed_version, 1);
    assert!(status.status.is_true("Applied"));
    // The form that people use with jq.
    let feedback = &status.status.resource_status[0].status_feedback.values[0].field_value;
    assert_eq!(feedback.json_raw.as_deref(), Some(r#"{"k":"1"}"#));
    assert_eq!(
        rest.resource_bundle_search("source='cs' and consumer_name='local-cluster'").await.unwrap().len(),
        2
    );
    assert_eq!(rest.resource_bundle_search("source='other'").await.unwrap(), []);
    let page = rest.resource_bundle_list("", 2, 1).await.unwrap();
    assert_eq!((page.total, page.size, page.page, page.kind.as_str()), (2, 1, 2, "ResourceBundleList"));

    // What is wrong is said with its number.
    let client = ClientBuilder::new(PATIENCE).build().unwrap();
    let ask = async |method: Method, path: &str| {
        let url = format!("{}/api/maestro/v1/{path}", world.server.rest_url).parse().unwrap();
        let answer = client.call(method, url).send().await.unwrap();
        let status = answer.status();
        let body = answer.bytes().await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    };
    let (status, body) = ask(Method::GET, "resource-bundles/none").await;
    assert_eq!((status, &body["code"]), (StatusCode::NOT_FOUND, &json!("maestro-7")));
    let (status, body) = ask(Method::GET, "resource-bundles?search=oops").await;
    assert_eq!((status, &body["code"]), (StatusCode::BAD_REQUEST, &json!("maestro-21")));
    assert_eq!(ask(Method::POST, "resource-bundles").await.0, StatusCode::METHOD_NOT_ALLOWED);
    let consumer = rest.consumer_list().await.unwrap().remove(0);
    assert_eq!(consumer.name, CONSUMER);
    let (status, body) = ask(Method::DELETE, &format!("consumers/{}", consumer.id)).await;
    assert_eq!((status, &body["code"]), (StatusCode::FORBIDDEN, &json!("maestro-4")));

    // Deletion over REST takes the same way.
    rest.resource_bundle_delete(&bundle.id).await.unwrap();
    world.until_map("a", None).await;
    until(&mut events, |event| event.resource_id == bundle.id && event.is_deleted()).await;
}

#[tokio::test]
async fn source_that_comes_back_is_told_what_it_missed() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start(folder.path()).await;
    let source = &world.server.source;
    let mut events = source.subscribe().await.unwrap();
    source.work_create(&work("one", "1")).await.unwrap();
    let known = until(&mut events, |event| shows(event, "1")).await;
    drop(events);

    let mut events = source.subscribe().await.unwrap();
    source.resync(Vec::new()).await.unwrap();
    let again = until(&mut events, |event| event.resource_id == known.resource_id).await;
    assert_eq!(again.status, known.status);
}
