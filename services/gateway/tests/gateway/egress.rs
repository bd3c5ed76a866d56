//! The way out.

use std::net::SocketAddr;
use std::time::Duration;

use pilothouse_gateway::{Config, Egress, EgressCluster, EgressListener};
use pilothouse_runtime::config;
use pilothouse_test_support::eventually;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Gateway, PATIENCE};

/// A header of a private link, up to its number.
const LINK: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x14\x0a\x01\x00\x04\x0a\x02\x00\x04\xc3\x50\x01\xbb\xee\x00\x05\x01";

/// Clusters with the hosts that they may reach.
pub(crate) fn clusters(allowed: &[(&str, Option<u32>, &[String])]) -> Egress {
    let cluster = |(name, link, allow): &(&str, Option<u32>, &[String])| {
        let allow = allow.iter().map(|host| host.parse().unwrap()).collect();
        ((*name).to_owned(), EgressCluster { link: *link, allow })
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = |cluster: Option<&str>| EgressListener { address, cluster: cluster.map(str::to_owned) };
    let named = allowed.iter().filter(|(_, link, _)| link.is_none()).map(|(name, ..)| listener(Some(name)));
    let linked = allowed.iter().any(|(_, link, _)| link.is_some()).then(|| listener(None));
    Egress {
        listeners: named.chain(linked).collect(),
        clusters: allowed.iter().map(cluster).collect(),
        ..Egress::default()
    }
}

/// One door for all who come by a private link, and nobody of the configuration.
pub(crate) fn by_link() -> Egress {
    let listener = EgressListener { address: SocketAddr::from(([127, 0, 0, 1], 0)), cluster: None };
    Egress { listeners: vec![listener], ..Egress::default() }
}

/// A server that answers a line with the same line.
pub(crate) async fn server() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// Says something to the proxy and reads its answer up to the end of the headers, or to the end.
async fn say(proxy: SocketAddr, words: &[u8]) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    stream.write_all(words).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        match tokio::time::timeout(PATIENCE, stream.read_u8()).await.unwrap() {
            Ok(byte) => answer.push(byte),
            Err(_) => break,
        }
    }
    (stream, String::from_utf8(answer).unwrap())
}

fn connect(to: &str) -> Vec<u8> {
    format!("CONNECT {to} HTTP/1.1\r\nhost: {to}\r\n\r\n").into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_reaches_what_is_on_its_list_by_name_and_address_and_nothing_else() {
    let server = server().await;
    let port = server.local_addr().unwrap().port();
    let (name, range) = (format!("localhost:{port}"), format!("127.0.0.0/8:{port}"));
    let v6 = format!("[::1]:{port}");
    let lists: [&[String]; 3] = [&[name.clone(), range.clone(), v6], std::slice::from_ref(&name), &[range]];
    let egress = clusters(&[("both", None, lists[0]), ("name", None, lists[1]), ("range", None, lists[2])]);
    let gateway = Gateway::start(Config { egress, ..Config::default() }).await;
    let [_, both, by_name, by_range] = gateway.addresses[..] else { panic!("{:?}", gateway.addresses) };

    let (mut tunnel, answer) = say(both, &[connect(&name), b"hello".to_vec()].concat()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (mut reached, _) = server.accept().await.unwrap();
    let mut heard = [0; 5];
    reached.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"hello", "also what was said before the answer");
    reached.write_all(b"world").await.unwrap();
    drop(reached);
    let mut heard = Vec::new();
    tunnel.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard, b"world");
    drop(tunnel);

    let literal = format!("127.0.0.1:{port}");
    for (door, to, status) in [
        // The name is listed, and leads home.
        (by_name, name.as_str(), "403"),
        // The address is listed, and this is a name.
        (by_range, &name, "403"),
        (by_range, &literal, "200"),
        (by_range, &format!("127.0.0.1:{}", port ^ 1), "403"),
        (by_name, &literal, "403"),
        (both, "example.com:443", "403"),
        (both, "localhost", "400"),
    ] {
        let (_, answer) = say(door, &connect(to)).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{to}: {answer}");
    }
    let (_, answer) = say(both, b"GET http://localhost/ HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 405") && answer.contains("allow: CONNECT"), "{answer}");
    for line in [
        "gateway_connections_total{outcome=\"ReservedAddress\"} 1",
        "gateway_connections_total{outcome=\"NotListed\"} 4",
        "gateway_connections_total{outcome=\"BadRequest\"} 2",
        "gateway_cluster_refused_total{management=\"\",cluster=\"name\"} 2",
        "gateway_cluster_carried_bytes_total{management=\"\",cluster=\"both\",direction=\"ToClient\"} 5",
    ] {
        gateway.until_numbers_say(line).await;
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn private_link_says_which_cluster_asks() {
    let server = server().await;
    let address = server.local_addr().unwrap().to_string();
    let own = [address.clone()];
    let egress = clusters(&[("first", Some(42), &own), ("second", Some(43), &[])]);
    let proxy_peers = vec!["127.0.0.1".parse().unwrap()];
    let gateway = Gateway::start(Config { egress, proxy_peers, ..Config::default() }).await;
    let door = gateway.addresses[1];
    for (link, begins) in [(42_u32, "HTTP/1.1 200"), (43, "HTTP/1.1 403"), (44, "")] {
        let words = [LINK, &link.to_le_bytes(), &connect(&address)].concat();
        let (_, answer) = say(door, &words).await;
        assert!(answer.starts_with(begins) && answer.is_empty() == begins.is_empty(), "{link}: {answer}");
    }
    gateway.until_numbers_say("gateway_connections_total{outcome=\"UnknownLink\"} 1").await;
    let (_, answer) = say(door, &connect(&address)).await;
    assert_eq!(answer, "", "nobody without a header");
    gateway.stop().await;
}

/// What a hosted cluster's routes say of its way out.
pub(crate) fn way_out(link: u32, allow: &str) -> Value {
    json!({ "pilothouse.dev/egress-link": link.to_string(), "pilothouse.dev/egress-allow": allow })
}

/// Asks through a private link.
pub(crate) async fn come_by_link(door: SocketAddr, link: u32, to: &str) -> (TcpStream, String) {
    say(door, &[LINK, &link.to_le_bytes(), &connect(to)].concat()).await
}

/// Asks through a private link until the answer begins like that.
pub(crate) async fn until_answered(door: SocketAddr, link: u32, to: &str, begins: &str) {
    eventually(&format!("link {link} is answered `{begins}`"), PATIENCE, || async {
        let (_, answer) = come_by_link(door, link, to).await;
        let as_wanted = answer.starts_with(begins) && answer.is_empty() == begins.is_empty();
        if as_wanted { Ok(()) } else { Err(answer) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosted_cluster_has_the_way_out_of_its_routes_for_as_long_as_it_has_routes() {
    let server = server().await;
    let address = server.local_addr().unwrap().to_string();
    let proxy_peers = vec!["127.0.0.1".parse().unwrap()];
    let gateway = Gateway::start(Config { egress: by_link(), proxy_peers, ..Config::default() }).await;
    let door = gateway.addresses[1];
    until_answered(door, 42, &address, "").await;

    gateway.cluster("first").await;
    gateway.restrict("first", way_out(42, &address), Value::Null);
    until_answered(door, 42, &address, "HTTP/1.1 200").await;
    until_answered(door, 42, "example.com:443", "HTTP/1.1 403").await;
    let labels = "{management=\"management\",cluster=\"first\"}";
    gateway.until_numbers_say(&format!("gateway_cluster_refused_total{labels} 1")).await;

    // A younger route of another cluster cannot take the link away, and is told.
    gateway.route("thief", "kube-apiserver", "api.thief.pilothouse.test", "2026-02-01T00:00:00Z");
    gateway.restrict("thief", way_out(42, "example.com"), Value::Null);
    eventually("the younger route is told", PATIENCE, || async {
        let route = gateway.api.get("routes", "thief", "kube-apiserver");
        let condition = route["status"]["ingress"][0]["conditions"][0].clone();
        let told = condition["reason"] == "NoWayOut" && condition["status"] == "True";
        if told { Ok(()) } else { Err(route.to_string()) }
    })
    .await;
    until_answered(door, 42, &address, "HTTP/1.1 200").await;

    gateway.restrict("first", way_out(43, "https://nonsense"), Value::Null);
    until_answered(door, 43, &address, "").await;
    gateway.restrict("first", way_out(43, &address), Value::Null);
    until_answered(door, 43, &address, "HTTP/1.1 200").await;
    // Who comes by the former link is whoever has that now.
    until_answered(door, 42, &address, "HTTP/1.1 403").await;
    let (mut tunnel, _) = come_by_link(door, 43, &address).await;
    gateway.api.delete("routes", "first", "kube-apiserver");
    until_answered(door, 43, &address, "").await;
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, tunnel.read_to_end(&mut rest)).await;
    assert!(ended.is_ok() && rest.is_empty(), "also what is open ends");
    eventually("that is counted", PATIENCE, || async {
        let numbers = gateway.numbers();
        if numbers.contains("outcome=\"Gone\"") { Ok(()) } else { Err(numbers) }
    })
    .await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_of_those_who_are_not_believed_end_the_connection() {
    let gateway =
        Gateway::start(Config { egress: clusters(&[("first", None, &[])]), ..Config::default() }).await;
    let words = [LINK, &42_u32.to_le_bytes(), &connect("example.com:443")].concat();
    let (_, answer) = say(gateway.addresses[1], &words).await;
    assert_eq!(answer, "");
    gateway.until_numbers_say("gateway_connections_total{outcome=\"UntrustedProxy\"} 1").await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_list_is_for_requests_that_come_after_it() {
    let server = server().await;
    let own = [server.local_addr().unwrap().to_string()];
    let config = |list: &[String]| Config { egress: clusters(&[("first", None, list)]), ..Config::default() };
    let gateway = Gateway::start(config(&[])).await;
    let (_, answer) = say(gateway.addresses[1], &connect(&own[0])).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    gateway.handle.reconfigure(config(&own)).unwrap();
    let (_, answer) = say(gateway.addresses[1], &connect(&own[0])).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_that_is_taken_out_of_the_configuration_takes_its_numbers_along() {
    let egress = clusters(&[("first", None, &[])]);
    let gateway = Gateway::start(Config { egress, ..Config::default() }).await;
    let (_, answer) = say(gateway.addresses[1], &connect("example.com:443")).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    gateway.until_numbers_say("gateway_cluster_refused_total{management=\"\",cluster=\"first\"} 1").await;
    gateway.handle.reconfigure(Config::default()).unwrap();
    let numbers = gateway.numbers();
    assert!(!numbers.contains("cluster=\"first\""), "{numbers}");
    eventually("it may not ask any more", PATIENCE, || async {
        match TcpStream::connect(gateway.addresses[1]).await {
            Ok(_) => Err("its door is open"),
            Err(_) => Ok(()),
        }
    })
    .await;
    let numbers = gateway.numbers();
    assert!(!numbers.contains("cluster=\"first\""), "{numbers}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn list_for_all_is_for_every_cluster_and_each_has_so_many_places() {
    let server = server().await;
    let address = server.local_addr().unwrap().to_string();
    let allow = vec![address.parse().unwrap()];
    let egress = Egress { allow, ..clusters(&[("first", None, &[]), ("second", None, &[])]) };
    let config = Config { egress, max_connections_per_cluster: 1, ..Config::default() };
    let gateway = Gateway::start(config).await;
    let [_, first, second] = gateway.addresses[..] else { panic!("{:?}", gateway.addresses) };
    let (tunnel, answer) = say(first, &connect(&address)).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (reached, _) = server.accept().await.unwrap();
    let (_, answer) = say(first, &connect(&address)).await;
    assert_eq!(answer, "", "it has its place already");
    let (_, answer) = say(second, &connect(&address)).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    gateway.until_numbers_say("gateway_connections_total{outcome=\"ClusterLimit\"} 1").await;
    gateway.until_numbers_say("gateway_cluster_refused_total{management=\"\",cluster=\"first\"} 1").await;
    drop((tunnel, reached));
    eventually("there is room again", PATIENCE, || async {
        let (_, answer) = say(first, &connect(&address)).await;
        if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(answer) }
    })
    .await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_is_too_slow_or_too_long_is_none() {
    let hello_timeout = config::Duration(Duration::from_millis(100));
    let egress = clusters(&[("first", None, &[])]);
    let gateway = Gateway::start(Config { egress, hello_timeout, ..Config::default() }).await;
    let (_, answer) = say(gateway.addresses[1], b"CONNECT example.com:443 HTTP/1.1\r\nhost:").await;
    assert!(!answer.contains("200"), "{answer}");
    gateway.until_numbers_say("gateway_connections_total{outcome=\"SlowHello\"} 1").await;

    let long = [b"CONNECT example.com:443 HTTP/1.1\r\nlong: ".as_slice(), &[b'a'; 64 * 1024]].concat();
    let mut stream = TcpStream::connect(gateway.addresses[1]).await.unwrap();
    // It may be refused before all of it was said.
    let _ = stream.write_all(&long).await;
    gateway.until_numbers_say("gateway_connections_total{outcome=\"BadRequest\"} 1").await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_does_not_wait_for_a_request_that_has_not_been_made() {
    // More than the test has patience for, so that it can only be the shutdown.
    let (hello_timeout, drain_timeout) = (config::Duration::from_secs(60), config::Duration::from_secs(39));
    let egress = clusters(&[("first", None, &[])]);
    let gateway = Gateway::start(Config { egress, hello_timeout, drain_timeout, ..Config::default() }).await;
    let mut stream = TcpStream::connect(gateway.addresses[1]).await.unwrap();
    stream.write_all(b"CONNECT example.com:443 HTTP/1.1\r\n").await.unwrap();
    gateway.until_numbers_say("gateway_open_connections 1").await;
    gateway.request_stop();
    gateway.until_numbers_say("gateway_connections_total{outcome=\"Drained\"} 1").await;
    gateway.stop().await;
}
