//! What is around the REST interface: its document, packing, health and numbers.

use std::io::Read as _;

use http::{Method, StatusCode};
use pilothouse_http::{ClientBuilder, ListenerConfig};
use pilothouse_maestro::server;
use serde_json::Value;

use crate::cluster::PATIENCE;
use crate::world::{BrokerPart, Server, Storage, World, broker_config, server_config, shows, until, work};

#[tokio::test]
async fn answers_are_packed_for_those_who_ask_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let broker = BrokerPart::ours(0).await;
    let server = Server::start(folder.path(), broker.port).await;
    let client = ClientBuilder::new(PATIENCE).build().unwrap();
    let ask = async |encoding: Option<&'static str>, path: &str| {
        let url = format!("{}/api/maestro/v1/{path}", server.rest_url).parse().unwrap();
        let mut call = client.call(Method::GET, url);
        if let Some(encoding) = encoding {
            call = call.header(http::header::ACCEPT_ENCODING, encoding);
        }
        call.send().await.unwrap()
    };
    let plain = ask(None, "openapi").await;
    assert!(!plain.headers().contains_key("content-encoding"));
    assert_eq!(plain.headers()["content-type"], "application/json");
    let plain = plain.bytes().await.unwrap();
    let document: Value = serde_json::from_slice(&plain).unwrap();
    assert!(document["paths"]["/api/maestro/v1/resource-bundles/{id}"]["delete"].is_object());
    let packed = ask(Some("gzip"), "openapi").await;
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    let packed = packed.bytes().await.unwrap();
    assert!(packed.len() < plain.len() / 2);
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain);
    // What is small, or refused, is left as it is.
    let small = ask(Some("gzip"), "resource-bundles/none").await;
    assert_eq!(small.status(), StatusCode::NOT_FOUND);
    assert!(!small.headers().contains_key("content-encoding"));
}

#[tokio::test]
async fn health_and_numbers_have_the_names_of_the_original() {
    let folder = tempfile::tempdir().unwrap();
    let broker = BrokerPart::ours(0).await;
    let config = server::Config {
        broker: broker_config(broker.port, "maestro"),
        health: Some(ListenerConfig::loopback(0)),
        ..server_config([0, 0])
    };
    let server = Server::configured(folder.path(), &Storage::Sqlite, config).await;
    let cluster = crate::cluster::Cluster::start().await;
    let agent = Some(broker.agent(&cluster).await);
    let world = World { cluster, broker, agent, server };
    let mut events = world.server.source.subscribe().await.unwrap();
    world.server.source.work_create(&work("one", "1")).await.unwrap();
    until(&mut events, |event| shows(event, "1")).await;
    let _ = world.server.source.work_create(&work("one", "1")).await;
    world.server.rest.resource_bundle_get("none").await.unwrap();

    let inside = world.server.inside.as_ref().unwrap();
    let client = ClientBuilder::new(PATIENCE).build().unwrap();
    let address = inside.health_address.unwrap();
    for path in ["healthcheck", "livez"] {
        let url = format!("http://{address}/{path}").parse().unwrap();
        let answer = client.call(Method::GET, url).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.json::<Value>().await.unwrap()["status"], "ok");
    }
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &inside.registry).unwrap();
    for line in [
        "rest_api_inbound_request_count{method=\"GET\",path=\"/api/maestro/v1/resource-bundles/-\",code=\"404\"} 1",
        "grpc_server_called_total{type=\"Publish\"} 2",
        "grpc_server_processed_total{type=\"Publish\",code=\"OK\"} 1",
        "grpc_server_processed_total{type=\"Publish\",code=\"Unknown\"} 1",
        "grpc_server_processed_total{type=\"Subscribe\",code=\"OK\"} 1",
        "grpc_server_processed_duration_seconds_count{type=\"Publish\"} 2",
        "cloudevents_sent_total{subresource=\"spec\"} ",
        "cloudevents_received_total{subresource=\"status\"} ",
        "resources_spec_resync_duration_seconds_count ",
        "spec_controller_event_reconcile_total{status=\"success\"} ",
        "resource_first_status_latency_seconds_count 1",
        "resource_status_event_processing_latency_seconds_count ",
        "workqueue_depth 0",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "no `{line}` in\n{text}");
    }
}
