//! Who may come to which cluster.

use std::net::SocketAddr;

use pilothouse_gateway::{Config, Reach};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::support::{Gateway, PATIENCE, ask, listener};

const ALLOW_LIST: &str = "haproxy.router.openshift.io/ip_allowlist";

/// Waits until clients of that host are told this.
async fn until_told(gateway: &Gateway, address: SocketAddr, host: &str, alert: &str) {
    eventually(&format!("clients are told {alert}"), PATIENCE, || async {
        match gateway.connect_at(address, host, b"").await {
            Err(error) if error.to_string().contains(alert) => Ok(()),
            other => Err(format!("{:?}", other.map(|_| ()))),
        }
    })
    .await;
}

async fn until_reached(gateway: &Gateway, address: SocketAddr, host: &str) {
    eventually("clients come through", PATIENCE, || async {
        gateway.connect_at(address, host, b"").await.map(|_| ()).map_err(|error| error.to_string())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn list_of_addresses_takes_effect_for_connections_that_come_after_it() {
    let config = Config { listeners: vec![listener(Reach::Internal)], ..Config::default() };
    let gateway = Gateway::start(config).await;
    let host = gateway.cluster("first").await;
    let other = gateway.cluster("second").await;
    let mut open = gateway.connect(&host).await.unwrap();
    assert_eq!(ask(&mut open).await.unwrap(), "first");

    gateway.restrict("first", json!({ ALLOW_LIST: "203.0.113.0/24 198.51.100.7" }), Value::Null);
    until_told(&gateway, gateway.address, &host, "AccessDenied").await;
    assert_eq!(ask(&mut open).await.unwrap(), "first", "what was connected stays so");
    assert_eq!(gateway.who(&other).await, "second", "others are others");
    until_reached(&gateway, gateway.addresses[1], &host).await;

    gateway.restrict("first", json!({ ALLOW_LIST: "203.0.113.0/24 127.0.0.0/8" }), Value::Null);
    until_reached(&gateway, gateway.address, &host).await;
    gateway.restrict("first", json!({ ALLOW_LIST: "everybody" }), Value::Null);
    until_told(&gateway, gateway.address, &host, "AccessDenied").await;
    eventually("the route says why", PATIENCE, || async {
        let route = gateway.api.get("routes", "first", "kube-apiserver");
        let condition = route["status"]["ingress"][0]["conditions"][0].clone();
        if condition["reason"] == "AccessNotUnderstood" { Ok(()) } else { Err(route.to_string()) }
    })
    .await;
    gateway.restrict("first", Value::Null, Value::Null);
    until_reached(&gateway, gateway.address, &host).await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn private_cluster_is_not_there_for_the_public() {
    let listeners = vec![listener(Reach::Private), listener(Reach::Internal)];
    let gateway = Gateway::start(Config { listeners, private_ranges: Vec::new(), ..Config::default() }).await;
    let host = gateway.cluster("first").await;
    gateway.restrict("first", Value::Null, json!({ "hypershift.openshift.io/internal-route": "true" }));
    until_told(&gateway, gateway.address, &host, "UnrecognisedName").await;
    for address in &gateway.addresses[1..] {
        until_reached(&gateway, *address, &host).await;
    }
    // From a private range the door for everybody will do.
    let ranges = vec!["127.0.0.0/8".parse().unwrap()];
    gateway.handle.reconfigure(Config { private_ranges: ranges, ..Config::default() }).unwrap();
    until_reached(&gateway, gateway.address, &host).await;
    gateway.stop().await;
}
