use http::{Method, StatusCode};
use kube::api::{Patch, PatchParams};
use pilothouse_http::ClientBuilder;
use pilothouse_maestro_api::{Error, work_uid};
use serde_json::{Value, json};

use crate::cluster::PATIENCE;
use crate::world::{BrokerPart, CONSUMER, SOURCE, Server, World, map, shows, until, work};

/// From the source to the cluster and back, and out again.
pub(crate) async fn story(world: &World) {
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
    if !BrokerPart::has_mosquitto() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let world = World::with(BrokerPart::mosquitto().await, folder.path()).await;
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
async fn rest_lists_what_is_asked_for_in_the_order_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let broker = BrokerPart::ours(0).await;
    let server = Server::start(folder.path(), broker.port).await;
    for name in ["c", "a", "b"] {
        server.source.work_create(&work(name, "1")).await.unwrap();
    }
    let client = ClientBuilder::new(PATIENCE).build().unwrap();
    let call = async |method: Method, path: &str, body: &str| {
        let url = format!("{}/api/maestro{path}", server.rest_url).parse().unwrap();
        let answer = client.call(method, url).body(body.to_owned()).send().await.unwrap();
        assert_eq!(answer.headers()["vary"], "Authorization");
        let status = answer.status().as_u16();
        (status, serde_json::from_slice::<Value>(&answer.bytes().await.unwrap()).unwrap_or_default())
    };
    let ask = async |path: &str| call(Method::GET, path, "").await.1;

    let labels = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap();
        items
            .iter()
            .map(|item| item["metadata"]["labels"]["api.openshift.com/id"].as_str().unwrap().to_owned())
            .collect()
    };
    let newest = ask("/v1/resource-bundles?orderBy=created_at%20desc").await;
    assert_eq!(labels(&newest), ["b", "a", "c"]);
    // Pages follow each other, also where nobody asks for an order.
    let all = labels(&ask("/v1/resource-bundles/").await);
    let mut paged = Vec::new();
    for page in 1..=3 {
        paged.extend(labels(&ask(&format!("/v1/resource-bundles?size=1&page={page}")).await));
    }
    assert_eq!(paged, all);
    // Whoever reads page after page sees what was there when it began, also if it has gone meanwhile.
    let path = |page: usize| format!("/v1/resource-bundles?size=1&page={page}&orderBy=created_at%20desc");
    let mut paged = labels(&ask(&path(1)).await);
    server.source.work_create(&work("d", "1")).await.unwrap();
    for page in 2..=3 {
        paged.extend(labels(&ask(&path(page)).await));
    }
    assert_eq!(paged, ["b", "a", "c"]);
    assert_eq!(labels(&ask(&path(1)).await), ["d"], "who begins anew sees what is new");
    server.rest.resource_bundle_delete(&work_uid(SOURCE, CONSUMER, "d").to_string()).await.unwrap();
    let none = ask("/v1/resource-bundles?size=0").await;
    assert_eq!((&none["total"], &none["size"], &none["items"]), (&json!(4), &json!(0), &json!([])));
    let named = ask("/v1/resource-bundles?fields=version,metadata.name&size=1&orderBy=created_at").await;
    let id = work_uid(SOURCE, CONSUMER, "c").to_string();
    assert_eq!(named["items"], json!([{"id": id, "version": 1, "metadata": {"name": "c"}}]));
    let consumers = ask("/v1/consumers?fields=name&orderBy=name").await;
    assert_eq!(consumers["items"][0]["name"], CONSUMER);

    // Whatever is refused has a number, and every number is explained.
    for (method, path, body, status, code) in [
        (Method::GET, "/v1/resource-bundles?orderBy=oops", "", 400, "maestro-21"),
        (Method::GET, "/v1/consumers?orderBy=labels", "", 400, "maestro-21"),
        (Method::GET, "/v1/resource-bundles?search=source~%27c%27", "", 400, "maestro-21"),
        (Method::POST, "/v1/consumers", "{", 400, "maestro-17"),
        (Method::POST, "/v1/consumers", r#"{"name":"local-cluster"}"#, 409, "maestro-6"),
        (Method::POST, "/v1/consumers", r#"{"id":"x","name":"y"}"#, 400, "maestro-8"),
        (Method::PATCH, "/v1/consumers/none", r#"{"labels":{}}"#, 404, "maestro-7"),
        (Method::GET, "/v1/errors/5", "", 404, "maestro-7"),
        (Method::GET, "/v2", "", 404, "maestro-404"),
    ] {
        let (found, answer) = call(method.clone(), path, body).await;
        assert_eq!((found, answer["code"].as_str()), (status, Some(code)), "{method} {path}");
    }
    assert_eq!(ask("/v1/errors/6").await["code"], "maestro-6");
    assert_eq!(ask("/v1/errors").await["total"], 13);
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
