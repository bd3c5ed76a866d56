//! Very many watches, and some that do not read.

use std::fs;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use pilothouse_http::{Client, ClientBuilder, Response};
use pilothouse_kubeapi::testing::{Cluster, Options};
use pilothouse_pki::{Bundle, LeafRequest, Subject};
use pilothouse_runtime::Clock;
use serde_json::{Value, json};
use url::Url;

const PATIENCE: Duration = Duration::from_secs(300);
/// Streams on one connection; a server allows a few more.
const STREAMS: usize = 200;
const SLOW: usize = 50;
/// What is written while they do not read: each would have so much waiting.
const WRITES: usize = 400;
const SIZE: usize = 64 << 10;
/// Generous to everything else that runs in this process, and a fraction of what queues would hold.
const MOST_GROWTH: usize = 400 << 20;

fn map(name: &str, size: usize) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "content": "x".repeat(size) } }))
        .unwrap()
}

/// Clients with connections of their own: HTTP/2, many streams on each.
fn clients(cluster: &Cluster, count: usize) -> Vec<Client> {
    let subject = Subject::try_new("watcher").unwrap().with_organizations(["system:masters"]).unwrap();
    let request = LeafRequest::client(subject);
    let authorities = Bundle::from(cluster.authority().certificate());
    let client = || {
        let builder = ClientBuilder::new(PATIENCE).with_authorities(authorities.clone());
        let identity = cluster.authority().issue(&request, &Clock::system()).unwrap();
        builder.with_identity(identity).build().unwrap()
    };
    (0..count).map(|_| client()).collect()
}

fn watch_url(cluster: &Cluster) -> Url {
    let version = "resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let path = "api/v1/namespaces/default/configmaps";
    format!("https://{}/{path}?watch=true&timeoutSeconds=600&{version}", cluster.address()).parse().unwrap()
}

async fn watch(client: &Client, url: &Url) -> Response {
    let response = client.get(url.clone()).streaming().send().await.unwrap();
    assert_eq!(response.status(), 200);
    response
}

/// The names in so many events.
async fn names(response: &mut Response, count: usize) -> Vec<String> {
    let (mut read, mut names) = (Vec::new(), Vec::new());
    while names.len() < count {
        let chunk = response.chunk().await.unwrap().expect("the watch goes on");
        read.extend_from_slice(&chunk);
        while let Some(end) = read.iter().position(|byte| *byte == b'\n') {
            let event: Value = serde_json::from_slice(&read[..end]).unwrap();
            names.push(format!(
                "{} {}",
                event["type"].as_str().unwrap(),
                event["object"]["metadata"]["name"].as_str().unwrap()
            ));
            read.drain(..=end);
        }
    }
    names
}

/// What this process has in memory.
fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_watches_see_an_event() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await.unwrap(), "default");
    let (clients, url) = (clients(&cluster, 10_000 / STREAMS), watch_url(&cluster));
    let everyone = clients.iter().flat_map(|client| std::iter::repeat_n(client, STREAMS));
    let watches: Vec<_> =
        stream::iter(everyone).map(|client| watch(client, &url)).buffer_unordered(64).collect().await;
    assert_eq!(watches.len(), 10_000);
    maps.create(&PostParams::default(), &map("seen", 1)).await.unwrap();
    let seen: Vec<_> = stream::iter(watches)
        .map(|mut watch| async move {
            let names = names(&mut watch, 1).await;
            (names, watch)
        })
        .buffer_unordered(10_000)
        .collect()
        .await;
    assert!(seen.iter().all(|(names, _)| names == &["ADDED seen"]));
    drop(seen);
    maps.delete("seen", &DeleteParams::default()).await.unwrap();
    drop(clients);
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_do_not_read_cost_nothing_and_miss_nothing() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await.unwrap(), "default");
    // One connection each: a stream that is not read holds up nobody else.
    let (clients, url) = (clients(&cluster, SLOW), watch_url(&cluster));
    let mut slow: Vec<_> =
        stream::iter(&clients).map(|client| watch(client, &url)).buffer_unordered(8).collect().await;
    let before = resident();
    let mut expected = Vec::new();
    for number in 0..WRITES / 2 {
        let name = format!("map-{number}");
        maps.create(&PostParams::default(), &map(&name, SIZE)).await.unwrap();
        maps.delete(&name, &DeleteParams::default()).await.unwrap();
        expected.extend([format!("ADDED {name}"), format!("DELETED {name}")]);
    }
    let growth = resident().saturating_sub(before);
    let queued = SLOW * WRITES * SIZE;
    assert!(growth < MOST_GROWTH, "{growth} bytes more, where queues would hold {queued}");
    // Whoever reads again sees everything, in order.
    for watch in slow.iter_mut().take(3) {
        assert_eq!(names(watch, WRITES).await, expected);
    }
    drop(slow);
    drop(clients);
    cluster.stop().await.unwrap();
}
