//! One cluster among many: what it may take, what is counted of it, and what it costs.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use pilothouse_gateway::Config;
use pilothouse_test_support::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::balancers::{FROM_198, FROM_203};
use crate::support::{Gateway, PATIENCE, ask};

#[tokio::test(flavor = "multi_thread")]
async fn those_who_do_not_say_whom_they_want_keep_nobody_out() {
    let gateway = Gateway::start(Config { max_connections_unnamed: 2, ..Config::default() }).await;
    let host = gateway.cluster("first").await;
    let mut waiting = Vec::new();
    for count in 1..=3 {
        let mut slow = TcpStream::connect(gateway.address).await.unwrap();
        // The beginning of a record that never ends.
        slow.write_all(&[22, 3, 1, 2, 0]).await.unwrap();
        waiting.push(slow);
        gateway.until_numbers_say(&format!("gateway_open_connections {}", count.min(2))).await;
    }
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, waiting[0].read_to_end(&mut rest)).await.unwrap().unwrap();
    assert_eq!(rest, b"", "whoever has waited longest is let go");
    gateway.until_numbers_say("gateway_connections_total{outcome=\"Overtaken\"} 1").await;
    assert_eq!(gateway.who(&host).await, "first", "who says it at once need not wait");
    gateway.until_numbers_say("gateway_open_connections 2").await;
    drop(waiting);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_cannot_have_all_places_and_balancers_say_whose_it_is() {
    let proxy_peers = vec!["127.0.0.1".parse().unwrap()];
    let config = Config { max_connections_per_address: 1, proxy_peers, ..Config::default() };
    let gateway = Gateway::start(config).await;
    let host = gateway.cluster("first").await;
    let come_from = async |header: &[u8]| gateway.connect_at(gateway.address, &host, header).await;
    let mut open = come_from(FROM_203).await.unwrap();
    assert_eq!(ask(&mut open).await.unwrap(), "first");
    assert!(come_from(FROM_203).await.is_err());
    gateway.until_numbers_say("gateway_connections_total{outcome=\"AddressLimit\"} 1").await;
    let mut other = come_from(FROM_198).await.unwrap();
    assert_eq!(ask(&mut other).await.unwrap(), "first");
    drop(open);
    eventually("there is room again", PATIENCE, || async {
        come_from(FROM_203).await.map(|_| ()).map_err(|error| error.to_string())
    })
    .await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_with_too_many_connections_does_not_take_those_of_others() {
    let gateway = Gateway::start(Config { max_connections_per_cluster: 1, ..Config::default() }).await;
    let (first, second) = (gateway.cluster("first").await, gateway.cluster("second").await);
    let mut open = gateway.connect(&first).await.unwrap();
    assert_eq!(ask(&mut open).await.unwrap(), "first");
    let error = gateway.connect(&first).await.unwrap_err().to_string();
    assert!(error.contains("InternalError"), "{error}");
    assert_eq!(gateway.who(&second).await, "second");
    let labels = "{management=\"management\",cluster=\"first\"}";
    for line in [
        "gateway_connections_total{outcome=\"ClusterLimit\"} 1".to_owned(),
        format!("gateway_cluster_open_connections{labels} 1"),
        format!("gateway_cluster_refused_total{labels} 1"),
    ] {
        gateway.until_numbers_say(&line).await;
    }
    drop(open);
    eventually("there is room again", PATIENCE, || async {
        gateway.connect(&first).await.map(|_| ()).map_err(|error| error.to_string())
    })
    .await;

    gateway.api.delete("routes", "first", "kube-apiserver");
    eventually("its numbers go with it", PATIENCE, || async {
        let numbers = gateway.numbers();
        if numbers.contains("cluster=\"first\"") { Err(numbers) } else { Ok(()) }
    })
    .await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_of_every_management_cluster_are_served_with_its_own_endpoints() {
    let gateway = Gateway::start(Config::default()).await;
    let first = gateway.cluster("first").await;
    // The same namespace, another cluster.
    let host = "api.elsewhere.pilothouse.test";
    let address = gateway.endpoint(host, "elsewhere").await;
    gateway.second_api.endpoints("first", address);
    gateway.second_api.route("first", "kube-apiserver", host, "2026-01-01T00:00:00Z");
    gateway.until_served(host, "first/kube-apiserver").await;
    eventually("its endpoint is known", PATIENCE, || async {
        gateway.connect(host).await.map(|_| ()).map_err(|error| error.to_string())
    })
    .await;
    assert_eq!(gateway.who(host).await, "elsewhere");
    assert_eq!(gateway.who(&first).await, "first");

    // A host of the other one, claimed later.
    gateway.second_api.route("thief", "kube-apiserver", &first, "2026-02-01T00:00:00Z");
    eventually("the younger route is told", PATIENCE, || async {
        let route = gateway.second_api.get("routes", "thief", "kube-apiserver");
        let message = route["status"]["ingress"][0]["conditions"][0]["message"].clone();
        let told =
            message.as_str().is_some_and(|message| message.contains("first/kube-apiserver of management"));
        if told { Ok(()) } else { Err(route.to_string()) }
    })
    .await;
    assert_eq!(gateway.who(&first).await, "first");
    gateway.stop().await;
}

/// Nothing lies between a route's event and its being served: not a timer, not a pass over the others, not even the write
/// that tells the world.
#[tokio::test(flavor = "multi_thread")]
async fn route_is_served_before_anybody_is_told_and_costs_one_write_among_hundreds() {
    const OTHERS: usize = 300;
    let gateway = Gateway::start(Config::default()).await;
    let seen: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
    gateway.api.before_status({
        let (seen, handle) = (seen.clone(), gateway.handle.clone());
        move |route| {
            let host = route["spec"]["host"].as_str().unwrap().to_owned();
            let served = handle.hosts().iter().any(|(served, _)| *served == host);
            seen.lock().unwrap().push((host, served));
        }
    });
    for number in 0..OTHERS {
        let host = format!("api.{number}.pilothouse.test");
        gateway.route(&format!("cluster-{number}"), "kube-apiserver", &host, "2026-01-01T00:00:00Z");
    }
    // Counted by their hosts, and until nobody is at work: a pass that meets a route which it has just written has its write refused.
    let until_told = async |count: usize| {
        eventually("routes are told", PATIENCE, || async {
            let told =
                seen.lock().unwrap().iter().map(|(host, _)| host.clone()).collect::<BTreeSet<_>>().len();
            let at_work: usize = gateway.handle.statuses().iter().map(|(_, status)| status.active).sum();
            if told == count && at_work == 0 { Ok(()) } else { Err(format!("{told}, {at_work} at work")) }
        })
        .await;
    };
    until_told(OTHERS).await;
    let before = gateway.api.requests.load(Ordering::Relaxed);
    gateway.route("new", "kube-apiserver", "api.new.pilothouse.test", "2026-01-02T00:00:00Z");
    until_told(OTHERS + 1).await;
    assert!(seen.lock().unwrap().iter().all(|(_, served)| *served));
    assert_eq!(seen.lock().unwrap().last().unwrap().0, "api.new.pilothouse.test");
    assert_eq!(gateway.api.requests.load(Ordering::Relaxed) - before, 1, "one route, one write");
    gateway.stop().await;
}
