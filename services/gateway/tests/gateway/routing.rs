//! Who reaches whom.

use std::collections::BTreeSet;
use std::time::Duration;

use pilothouse_gateway::Config;
use pilothouse_runtime::config;
use pilothouse_test_support::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Gateway, PATIENCE, SILENT, ask};

#[tokio::test(flavor = "multi_thread")]
async fn clients_reach_the_cluster_they_name_and_no_other() {
    let gateway = Gateway::start(Config::default()).await;
    let first = gateway.cluster("first").await;
    let second = gateway.cluster("second").await;
    assert_eq!(gateway.who(&first).await, "first");
    assert_eq!(gateway.who(&second).await, "second");
    gateway.until_numbers_say("gateway_connections_total{outcome=\"Served\"} 2").await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_and_missing_names_are_refused_with_an_alert() {
    let gateway = Gateway::start(Config::default()).await;
    gateway.cluster("first").await;
    for host in ["api.second.pilothouse.test", "127.0.0.1"] {
        let error = gateway.connect(host).await.unwrap_err().to_string();
        assert!(error.contains("UnrecognisedName"), "{error}");
    }
    gateway.until_numbers_say("gateway_connections_total{outcome=\"UnknownName\"} 1").await;
    gateway.until_numbers_say("gateway_connections_total{outcome=\"NoName\"} 1").await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_come_move_and_go_while_the_gateway_runs() {
    let gateway = Gateway::start(Config::default()).await;
    let host = gateway.cluster("first").await;
    let mut open = gateway.connect(&host).await.unwrap();
    assert_eq!(ask(&mut open).await.unwrap(), "first");

    gateway.api.delete("routes", "first", "kube-apiserver");
    eventually("the host is not served", PATIENCE, || async {
        let hosts = gateway.handle.hosts();
        if hosts.is_empty() { Ok(()) } else { Err(format!("{hosts:?}")) }
    })
    .await;
    assert!(gateway.connect(&host).await.is_err());
    assert_eq!(ask(&mut open).await.unwrap(), "first", "what was connected stays so");

    // An endpoint that is not there, and then one that is.
    gateway.route("first", "again", &host, "2026-01-02T00:00:00Z");
    gateway.until_served(&host, "first/again").await;
    gateway.endpoints("first", "127.0.0.1:1".parse().unwrap());
    eventually("nobody can be reached", PATIENCE, || async {
        match gateway.connect(&host).await {
            Err(error) if error.to_string().contains("InternalError") => Ok(()),
            other => Err(format!("{:?}", other.map(|_| ()))),
        }
    })
    .await;
    gateway.until_numbers_say("gateway_connections_total{outcome=\"Unreachable\"} 1").await;
    gateway.stop().await;
}

/// Waits until clients of that host reach one of these.
async fn until_reached(gateway: &Gateway, host: &str, one_of: &[&str]) {
    eventually(&format!("one of {one_of:?} is reached"), PATIENCE, || async {
        let mut stream = gateway.connect(host).await.map_err(|error| error.to_string())?;
        let reached = ask(&mut stream).await.map_err(|error| error.to_string())?;
        if one_of.contains(&reached.as_str()) { Ok(()) } else { Err(reached) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_each_cluster_take_turns_also_when_clients_come_to_two_in_turn() {
    let gateway = Gateway::start(Config::default()).await;
    let mut hosts = Vec::new();
    for name in ["first", "second"] {
        let host = gateway.cluster(name).await;
        let (one, other) = (format!("{name}-one"), format!("{name}-other"));
        let addresses = [gateway.endpoint(&host, &one).await, gateway.endpoint(&host, &other).await];
        gateway.replicas(name, &addresses);
        until_reached(&gateway, &host, &[&one, &other]).await;
        hosts.push(host);
    }
    let mut reached = BTreeSet::new();
    for host in hosts.iter().chain(&hosts) {
        reached.insert(gateway.who(host).await);
    }
    let all = ["first-one", "first-other", "second-one", "second-other"];
    assert_eq!(reached, all.map(str::to_owned).into());
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replica_that_does_not_answer_is_left_for_the_next_and_not_for_ever() {
    let dial_timeout = config::Duration(Duration::from_millis(200));
    let gateway = Gateway::start(Config { dial_timeout, ..Config::default() }).await;
    let host = gateway.cluster("first").await;
    let alive = gateway.endpoint(&host, "alive").await;
    let (refusing, silent) = ("127.0.0.1:1".parse().unwrap(), SILENT.parse().unwrap());
    gateway.replicas("first", &[refusing, silent, alive]);
    until_reached(&gateway, &host, &["alive"]).await;
    for _ in 0..3 {
        assert_eq!(gateway.who(&host).await, "alive", "whoever's turn it is");
    }
    // Three are tried. Of four turns, one ends before the only one that answers.
    gateway.replicas("first", &[silent, refusing, silent, alive]);
    let error = eventually("nobody answers", PATIENCE, || async {
        match gateway.connect(&host).await {
            Ok(_) => Err("somebody does"),
            Err(error) => Ok(error.to_string()),
        }
    })
    .await;
    assert!(error.contains("InternalError"), "{error}");
    gateway.until_numbers_say("gateway_connections_total{outcome=\"Unreachable\"} 1").await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_belongs_to_the_older_route_and_the_younger_is_told() {
    let gateway = Gateway::start(Config::default()).await;
    let host = gateway.cluster("first").await;
    gateway.route("a-thief", "kube-apiserver", &host, "2026-02-01T00:00:00Z");
    eventually("the younger route is told", PATIENCE, || async {
        let route = gateway.api.get("routes", "a-thief", "kube-apiserver");
        let condition = route["status"]["ingress"][0]["conditions"][0].clone();
        if condition["reason"] == "HostAlreadyClaimed" { Ok(()) } else { Err(route.to_string()) }
    })
    .await;
    assert_eq!(gateway.who(&host).await, "first");
    let route = gateway.api.get("routes", "first", "kube-apiserver");
    assert_eq!(route["status"]["ingress"][0]["conditions"][0]["status"], "True");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_does_not_say_whom_it_wants_is_let_go() {
    let hello_timeout = config::Duration(Duration::from_millis(50));
    let gateway = Gateway::start(Config { hello_timeout, ..Config::default() }).await;
    let mut slow = TcpStream::connect(gateway.address).await.unwrap();
    // The beginning of a record that never ends.
    slow.write_all(&[22, 3, 1, 2, 0]).await.unwrap();
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, slow.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert_eq!(rest, b"");
    gateway.until_numbers_say("gateway_connections_total{outcome=\"SlowHello\"} 1").await;

    let mut other = TcpStream::connect(gateway.address).await.unwrap();
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    tokio::time::timeout(PATIENCE, other.read_to_end(&mut rest)).await.unwrap().unwrap();
    gateway.until_numbers_say("gateway_connections_total{outcome=\"BadHello\"} 1").await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_limit_are_closed() {
    let gateway = Gateway::start(Config { max_connections: 1, ..Config::default() }).await;
    let host = gateway.cluster("first").await;
    let mut open = gateway.connect(&host).await.unwrap();
    assert_eq!(ask(&mut open).await.unwrap(), "first");
    assert!(gateway.connect(&host).await.is_err());
    gateway.until_numbers_say("gateway_connections_total{outcome=\"Limit\"} 1").await;
    drop(open);
    eventually("there is room again", PATIENCE, || async {
        gateway.connect(&host).await.map(|_| ()).map_err(|error| error.to_string())
    })
    .await;
    gateway.stop().await;
}
