//! The gateway and programs that know nothing of it: curl, OpenSSL and HAProxy.

use std::process::{Output, Stdio};

use pilothouse_gateway::Config;
use pilothouse_test_support::eventually;
use pilothouse_test_support::haproxy::Haproxy;
use pilothouse_test_support::process::free_port;
use pilothouse_test_support::requirement::Requirement;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::egress::{clusters, server};
use crate::support::{Gateway, PATIENCE};

const CURL: Requirement = Requirement::new("curl", "curl");
const OPENSSL: Requirement = Requirement::new("openssl", "openssl");

async fn run(program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    tokio::time::timeout(PATIENCE, command.output()).await.unwrap().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn openssl_reaches_whom_it_names_and_is_refused_without_a_name() {
    if OPENSSL.find().is_none() {
        return;
    }
    let gateway = Gateway::start(Config::default()).await;
    let host = gateway.cluster("first").await;
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.crt");
    std::fs::write(&authority, gateway.authority()).unwrap();
    let address = gateway.address.to_string();
    let shared =
        ["s_client", "-connect", &address, "-CAfile", authority.to_str().unwrap(), "-verify_return_error"];

    let named = [&shared[..], &["-servername", &host, "-verify_hostname", &host]].concat();
    let output = run("openssl", &named).await;
    assert!(text(&output).contains("Verify return code: 0 (ok)"), "{}", text(&output));
    let nameless = [&shared[..], &["-noservername"]].concat();
    let unknown = [&shared[..], &["-servername", "api.nobody.pilothouse.test"]].concat();
    for arguments in [nameless, unknown] {
        let output = run("openssl", &arguments).await;
        assert!(!output.status.success() && text(&output).contains("unrecognized name"), "{}", text(&output));
    }
    gateway.until_numbers_say("gateway_connections_total{outcome=\"NoName\"} 1").await;
    gateway.until_numbers_say("gateway_connections_total{outcome=\"UnknownName\"} 1").await;

    gateway.restrict(
        "first",
        json!({ "haproxy.router.openshift.io/ip_allowlist": "203.0.113.0/24" }),
        Value::Null,
    );
    eventually("OpenSSL is told", PATIENCE, || async {
        let output = text(&run("openssl", &named).await);
        if output.contains("access denied") { Ok(()) } else { Err(output) }
    })
    .await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_goes_out_through_the_gateway_to_where_it_may() {
    if CURL.find().is_none() {
        return;
    }
    let server = server().await;
    let port = server.local_addr().unwrap().port();
    let lists = [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")];
    let egress = clusters(&[("first", None, &lists), ("second", None, &lists[..1])]);
    let gateway = Gateway::start(Config { egress, ..Config::default() }).await;
    let url = format!("http://localhost:{port}/");
    let curl = async |proxy: usize, url: &str| {
        let proxy = format!("http://{}", gateway.addresses[proxy]);
        let code = "%{http_connect} %{http_code}";
        run("curl", &["-s", "--proxytunnel", "--proxy", &proxy, "--write-out", code, url]).await
    };
    let answering = async {
        let (mut stream, _) = server.accept().await.unwrap();
        let mut request = [0; 1024];
        let read = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello ").await.unwrap();
        String::from_utf8_lossy(&request[..read]).into_owned()
    };
    let (output, request) = tokio::join!(curl(1, &url), answering);
    assert!(output.status.success() && text(&output) == "hello 200 200", "{}", text(&output));
    assert!(request.starts_with("GET / HTTP/1.1"), "{request}");
    for (proxy, url) in [(2, url.as_str()), (1, "http://example.com:80/"), (1, "https://169.254.169.254/")] {
        let output = curl(proxy, url).await;
        assert!(!output.status.success() && text(&output).starts_with("403 000"), "{url}: {}", text(&output));
    }
    gateway.stop().await;
}

/// HAProxy on both sides: in front of the gateway as the balancer that says who comes, and behind it as an endpoint that
/// lets nobody in but whom it is told.
#[tokio::test(flavor = "multi_thread")]
async fn haproxy_says_who_comes_and_is_told_who_comes() {
    if CURL.find().is_none() {
        return;
    }
    let proxy_peers = vec!["127.0.0.1".parse().unwrap()];
    let gateway = Gateway::start(Config { proxy_peers, ..Config::default() }).await;
    let host = gateway.cluster("first").await;
    let endpoint = gateway.endpoint(&host, "behind").await;
    let (front, behind) = (free_port(), free_port());
    let sections = format!(
        "listen front
    bind 127.0.0.1:{front}
    server gateway {gateway} send-proxy-v2
listen behind
    bind 127.0.0.1:{behind} accept-proxy
    tcp-request session reject unless {{ src 127.0.0.3 127.0.0.4 }}
    server endpoint {endpoint}
",
        gateway = gateway.address
    );
    let Some(_haproxy) = Haproxy::start(&sections) else { return };
    gateway.endpoints("first", ([127, 0, 0, 1], behind).into());
    gateway.restrict(
        "first",
        json!({
            "haproxy.router.openshift.io/ip_allowlist": "127.0.0.2 127.0.0.3",
            "pilothouse.dev/proxy-protocol": "v2",
        }),
        Value::Null,
    );
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.crt");
    std::fs::write(&authority, gateway.authority()).unwrap();
    let (url, resolve) = (format!("https://{host}:{front}/"), format!("{host}:{front}:127.0.0.1"));
    let come_from = async |source: &str| {
        let arguments =
            ["-sS", "--http0.9", "--interface", source, "--resolve", &resolve, "--max-time", "5", "--cacert"];
        let arguments = [&arguments[..], &[authority.to_str().unwrap(), &url]].concat();
        text(&run("curl", &arguments).await)
    };
    eventually("who is on both lists comes through", PATIENCE * 3, || async {
        // It says something for every byte, and never stops; what counts is that it is the one behind.
        let said = come_from("127.0.0.3").await;
        if said.contains("behind") { Ok(()) } else { Err(said) }
    })
    .await;
    // On the gateway's list and not on the other; on the other and not on the gateway's; on neither.
    for source in ["127.0.0.2", "127.0.0.4", "127.0.0.1"] {
        let said = come_from(source).await;
        assert!(!said.contains("behind"), "{source}: {said}");
    }
    gateway.until_numbers_say("gateway_connections_total{outcome=\"NotAllowed\"} 2").await;
    gateway.stop().await;
}
