//! Balancers in front of the gateway, and endpoints that want to know who comes.

use std::time::Duration;

use pilothouse_gateway::{Config, Reach};
use pilothouse_runtime::config;
use pilothouse_test_support::eventually;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Gateway, PATIENCE, ask, listener};

/// A header that speaks for 203.0.113.9:4660.
pub(crate) const FROM_203: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xcb\x00\x71\x09\x7f\x00\x00\x01\x12\x34\x24\xe3";
/// A header that speaks for 198.51.100.1:4660.
pub(crate) const FROM_198: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc6\x33\x64\x01\x7f\x00\x00\x01\x12\x34\x24\xe3";
/// A balancer's own connection.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";

#[tokio::test(flavor = "multi_thread")]
async fn balancer_that_is_believed_says_where_clients_come_from() {
    let proxy_peers = vec!["127.0.0.1".parse().unwrap()];
    let listeners = vec![listener(Reach::Internal)];
    let gateway = Gateway::start(Config { proxy_peers, listeners, ..Config::default() }).await;
    let host = gateway.cluster("first").await;
    let list = json!({ "haproxy.router.openshift.io/ip_allowlist": "203.0.113.0/24" });
    gateway.restrict("first", list, Value::Null);
    eventually("the list counts", PATIENCE, || async {
        match gateway.connect_at(gateway.address, &host, FROM_198).await {
            Err(error) if error.to_string().contains("AccessDenied") => Ok(()),
            other => Err(format!("{:?}", other.map(|_| ()))),
        }
    })
    .await;
    let mut stream = gateway.connect_at(gateway.address, &host, FROM_203).await.unwrap();
    assert_eq!(ask(&mut stream).await.unwrap(), "first");
    let error = gateway.connect_at(gateway.address, &host, LOCAL).await.unwrap_err();
    assert!(error.to_string().contains("AccessDenied"), "the balancer itself is not on the list: {error}");

    // Parts of the region are no balancers, though they may be where one is.
    gateway.connect_at(gateway.addresses[1], &host, b"").await.unwrap();
    // Who may leave the header out may also be somebody else.
    assert!(gateway.connect(&host).await.is_err());
    gateway.until_numbers_say("gateway_connections_total{outcome=\"BadProxy\"} 1").await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn balancer_that_does_not_say_all_of_it_is_not_waited_for() {
    let proxy_peers = vec!["127.0.0.1".parse().unwrap()];
    let hello_timeout = config::Duration(Duration::from_millis(100));
    let gateway = Gateway::start(Config { proxy_peers, hello_timeout, ..Config::default() }).await;
    for half in [&FROM_203[..7], &FROM_203[..20]] {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(half).await.unwrap();
        let mut said = Vec::new();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await.unwrap().unwrap();
        assert_eq!(said, b"");
    }
    gateway.until_numbers_say("gateway_connections_total{outcome=\"SlowHello\"} 2").await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn header_of_anybody_else_ends_the_connection_without_a_word() {
    let gateway = Gateway::start(Config::default()).await;
    gateway.cluster("first").await;
    for header in [FROM_203, b"PROXY TCP4 203.0.113.9 127.0.0.1 4660 9443\r\n"] {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(header).await.unwrap();
        let mut said = Vec::new();
        // A reset is as good an end as any.
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await.unwrap();
        assert_eq!(said, b"");
    }
    gateway.until_numbers_say("gateway_connections_total{outcome=\"UntrustedProxy\"} 2").await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoint_is_told_who_comes_if_its_route_says_so() {
    let proxy_peers = vec!["127.0.0.1".parse().unwrap()];
    let gateway = Gateway::start(Config { proxy_peers, ..Config::default() }).await;
    let host = gateway.cluster("first").await;
    let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
    gateway.endpoints("first", endpoint.local_addr().unwrap());
    gateway.restrict("first", json!({ "pilothouse.dev/proxy-protocol": "v2" }), Value::Null);
    eventually("the endpoint is told", PATIENCE, || async {
        let heard = async {
            let (mut stream, _) = endpoint.accept().await.unwrap();
            let mut heard = vec![0; 256];
            let read = stream.read(&mut heard).await.unwrap();
            heard.truncate(read);
            heard
        };
        let heard = tokio::select! {
            heard = heard => heard,
            // It never answers: that was the endpoint of before.
            _ = gateway.connect_at(gateway.address, &host, FROM_203) => Vec::new(),
        };
        let host = [b"\x02\x00\x19", host.as_bytes()].concat();
        // Addresses, ports, the host, and then what the client said.
        let told = heard
            .starts_with(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x28\xcb\x00\x71\x09\x7f\x00\x00\x01\x12\x34")
            && heard[28..56] == host
            && heard[56] == 22;
        if told { Ok(()) } else { Err(format!("{}", heard.escape_ascii())) }
    })
    .await;
    gateway.stop().await;
}
