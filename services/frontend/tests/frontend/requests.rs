//! What is refused before anybody looks at the resource.

use std::net::SocketAddr;

use http::Method;
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_frontend::{Config, Deps, Service};
use pilothouse_http::ClientBuilder;
use pilothouse_records::catalog;
use pilothouse_runtime::{Clock, Shutdown};
use pilothouse_store::{Location, Options, Store};
use prometheus_client::registry::Registry;
use serde_json::json;

use crate::support::{PATIENCE, Rig, SUBSCRIPTION, cluster, cluster_body, cluster_url};

#[tokio::test]
async fn a_subscription_must_be_registered() {
    let rig = Rig::unregistered().await;
    let refused = rig.put(&cluster_url("First"), &cluster_body()).await;
    assert_eq!((refused.status, refused.code()), (400, "InvalidSubscriptionState"));
    assert_eq!(refused.header("x-ms-error-code"), "InvalidSubscriptionState");
    let url = format!("/SUBSCRIPTIONS/{}?api-version=2.0", SUBSCRIPTION.to_uppercase());
    assert_eq!(rig.get(&url).await.code(), "SubscriptionNotFound");
    for (state, get, put) in
        [("Registered", 404, 201), ("Warned", 200, 409), ("Suspended", 200, 409), ("Unregistered", 400, 400)]
    {
        let body = json!({"state": state, "registrationDate": "now"});
        assert_eq!(rig.put(&url, &body).await.body, body);
        assert_eq!(rig.get(&url).await.body["state"], state);
        assert_eq!(rig.get(&cluster_url("First")).await.status, get, "GET while {state}");
        assert_eq!(rig.put(&cluster_url("First"), &cluster_body()).await.status, put, "PUT while {state}");
    }
    let wrong = rig.put(&url, &json!({"state": "registered"})).await;
    assert_eq!((wrong.status, wrong.code()), (400, "MultipleErrorsOccurred"));
    assert_eq!(rig.put("/subscriptions/x?api-version=2.0", &json!({})).await.code(), "SubscriptionNotFound");
    rig.stop().await;
}

#[tokio::test]
async fn a_deleted_subscription_takes_its_clusters_along() {
    let rig = Rig::new().await;
    assert_eq!(rig.put(&cluster_url("First"), &cluster_body()).await.status, 201);
    let body = json!({"state": "Deleted", "registrationDate": "now"});
    let url = format!("/subscriptions/{SUBSCRIPTION}?api-version=2.0");
    assert_eq!(rig.put(&url, &body).await.status, 200);
    let active = rig.records.operation_active().await.unwrap();
    assert_eq!(active.len(), 1);
    assert_eq!(active[0].request, pilothouse_records::Request::Delete);
    rig.stop().await;
}

#[tokio::test]
async fn paths_versions_and_bodies_that_are_not_served_are_refused() {
    let rig = Rig::new().await;
    let path = cluster("First");
    for (method, url, status, code) in [
        (Method::GET, "/nothing".to_owned(), 404, "NotFound"),
        (Method::POST, cluster_url("First"), 404, "NotFound"),
        (Method::GET, path.clone(), 400, "InvalidParameter"),
        (Method::GET, format!("{path}?api-version=2020-01-01"), 400, "InvalidResourceType"),
        (Method::GET, cluster_url("First"), 404, "ResourceNotFound"),
        (Method::GET, format!("{path}%2f?api-version=2026-10-01"), 404, "NotFound"),
    ] {
        let refused = rig.send(method.clone(), &url, None).await;
        assert_eq!((refused.status, refused.code()), (status, code), "{method} {url}");
        assert!(!refused.header("x-ms-request-id").is_empty());
    }
    let untyped = rig.send(Method::PUT, &cluster_url("First"), None).await;
    assert_eq!((untyped.status, untyped.code()), (415, "UnsupportedMediaType"));
    let missing = rig.get(&cluster_url("First")).await;
    assert_eq!(missing.body["error"]["target"], path.as_str());
    rig.stop().await;
}

#[tokio::test]
async fn without_authentication_only_the_loopback_is_served() {
    let options = Options::new(Location::memory(), catalog().unwrap(), Shutdown::new());
    let http = ClientBuilder::new(PATIENCE).build().unwrap();
    let address = "http://127.0.0.1:1".parse().unwrap();
    let deps = Deps {
        store: Store::open(options).await.unwrap(),
        clusters_service: clusters_service::Client::try_new(http, &address).unwrap(),
        clock: Clock::system(),
        registry: &mut Registry::default(),
    };
    let listen: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let error = Service::build(Config { listen, ..Config::default() }, deps).await.unwrap_err();
    assert!(error.to_string().contains("may not listen on 0.0.0.0:0"), "{error}");
}
