//! From where a cluster's API server may be reached: asked of the resource provider, and enforced where clients come in. And
//! where a cluster may go, as its `HostedCluster` says.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use pilothouse_test_support::eventually;
use pilothouse_test_support::process::free_port;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

use crate::first_light::cluster_body;
use crate::region::{LIMIT, Region};

/// No address that other clients come from: from there each has to say who it is.
const BALANCER: &str = "127.0.0.9:0";
const ROUTES: [&str; 5] = ["get", "routes", "--all-namespaces", "-o", "yaml"];

#[tokio::test(flavor = "multi_thread")]
async fn api_server_is_reached_from_where_its_owner_allows_and_nowhere_else() {
    let Some(mut region) = Region::start(&[]).await else { return };
    region.provider().register();
    let first = Region::cluster_id("first");
    let mut body = cluster_body();
    body["properties"]["api"] = json!({ "visibility": "Private", "authorizedCidrs": ["203.0.113.0/24"] });
    let (status, answer) = region.arm("PUT", &first, Some(&body));
    assert_eq!(status, 201, "{answer}");
    // The region itself reaches it, or it would never be seen to answer.
    region.reaches(&first, "Succeeded").await;
    let kubeconfig = region.kubeconfig("first").unwrap();
    let nodes = ["get", "nodes", "--request-timeout=5s"];
    let refused = region.kubectl_on(&kubeconfig, &nodes).unwrap_err();
    assert!(refused.contains("access denied"), "{refused}");
    let routes = region.kubectl(&ROUTES).unwrap();
    assert!(routes.contains("hypershift.openshift.io/internal-route: \"true\""), "{routes}");

    // It takes what is on the list for connections that come from now on, in either direction.
    for (list, open) in [
        (json!(["203.0.113.0/24", "127.0.0.1"]), true),
        (json!(["203.0.113.0/24"]), false),
        (json!(null), true),
    ] {
        let change = json!({ "properties": { "api": { "authorizedCidrs": list } } });
        let (status, answer) = region.arm("PATCH", &first, Some(&change));
        assert!([200, 202].contains(&status), "{status} {answer}");
        eventually(&format!("{list} is in effect"), LIMIT, || async {
            let seen = region.kubectl_on(&kubeconfig, &nodes);
            if seen.is_ok() == open { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
        region.reaches(&first, "Succeeded").await;
    }
    let routes = region.kubectl(&ROUTES).unwrap();
    assert!(!routes.contains("ip_allowlist"), "{routes}");
    region.stop();
}

/// Asks for the way out by a private link, as the balancer that the gateway believes. Answers what it is told, at most a line.
async fn ask_for_way_out(door: SocketAddr, link: u32, to: &str) -> std::io::Result<String> {
    const HEADER: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x14\x0a\x01\x00\x04\x0a\x02\x00\x04\xc3\x50\x01\xbb\xee\x00\x05\x01";
    let socket = TcpSocket::new_v4()?;
    socket.bind(BALANCER.parse().unwrap())?;
    let mut stream = socket.connect(door).await?;
    let request = format!("CONNECT {to} HTTP/1.1\r\nhost: {to}\r\n\r\n");
    stream.write_all(&[HEADER, &link.to_le_bytes(), request.as_bytes()].concat()).await?;
    let mut answer = String::new();
    while let Ok(byte) = stream.read_u8().await
        && byte != b'\r'
    {
        answer.push(char::from(byte));
    }
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_has_the_way_out_of_its_annotations_for_as_long_as_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.toml");
    std::fs::write(&file, "[service]\nproxy_peers = [\"127.0.0.9\"]\n").unwrap();
    let Some(mut region) = Region::start(&["--gateway-config", file.to_str().unwrap()]).await else { return };
    // The door is opened while it runs.
    let door = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let egress = format!("[[service.egress.listeners]]\naddress = \"{door}\"\n");
    std::fs::File::options().append(true).open(&file).unwrap().write_all(egress.as_bytes()).unwrap();

    region.provider().register();
    let first = Region::cluster_id("first");
    let (status, answer) = region.arm("PUT", &first, Some(&cluster_body()));
    assert_eq!(status, 201, "{answer}");
    region.reaches(&first, "Succeeded").await;
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap().to_string();
    assert_eq!(ask_for_way_out(door, 42, &to).await.unwrap(), "", "nobody has this link");

    let names = "jsonpath={.items[0].metadata.namespace} {.items[0].metadata.name}";
    let names = region.kubectl(&["get", "hostedclusters", "--all-namespaces", "-o", names]).unwrap();
    let (namespace, name) = names.trim().split_once(' ').unwrap();
    let allow = format!("pilothouse.dev/egress-allow={to}");
    let annotate =
        ["-n", namespace, "annotate", "hostedcluster", name, "pilothouse.dev/egress-link=42", &allow];
    region.kubectl(&annotate).unwrap();
    eventually("it has the way out", LIMIT, || async {
        let answer = ask_for_way_out(door, 42, &to).await.map_err(|error| error.to_string())?;
        if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(answer) }
    })
    .await;
    assert!(server.accept().unwrap().0.read(&mut [0]).is_ok(), "it was led there");
    assert!(ask_for_way_out(door, 42, "example.com:443").await.unwrap().starts_with("HTTP/1.1 403"));

    let (status, answer) = region.arm("DELETE", &first, None);
    assert_eq!(status, 202, "{answer}");
    region.is_gone(&first).await;
    assert_eq!(ask_for_way_out(door, 42, &to).await.unwrap(), "", "with the cluster went its way out");
    region.stop();
}
