//! Following changes.

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use pilothouse_store::Location;
use pilothouse_test_support::eventually;
use serde_json::json;

use crate::support::{Cluster, Ground, PATIENCE};

fn config_map(name: &str, label: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name, "labels": { "state": label } } })).unwrap()
}

fn shown(event: &WatchEvent<ConfigMap>) -> String {
    match event {
        WatchEvent::Added(map) => format!("added {}", map.name_any()),
        WatchEvent::Modified(map) => format!("modified {}", map.name_any()),
        WatchEvent::Deleted(map) => format!("deleted {}", map.name_any()),
        WatchEvent::Bookmark(_) => "bookmark".to_owned(),
        WatchEvent::Error(status) => format!("error {}", status.code),
    }
}

/// The next so many events after a version.
async fn events(maps: &Api<ConfigMap>, parameters: &WatchParams, after: &str, count: usize) -> Vec<String> {
    let stream = maps.watch(parameters, after).await.unwrap();
    let taken = stream.take(count).map_ok(|event| shown(&event)).try_collect();
    tokio::time::timeout(PATIENCE, taken).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_watch_resumes_where_it_was() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, "default");
    let first = maps.create(&PostParams::default(), &config_map("a", "x")).await.unwrap();
    let everything = WatchParams::default();
    assert_eq!(events(&maps, &everything, "0", 1).await, ["added a"]);
    maps.create(&PostParams::default(), &config_map("b", "x")).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let version = first.resource_version().unwrap();
    assert_eq!(events(&maps, &everything, &version, 2).await, ["added b", "deleted a"]);
    cluster.stop().await;
}

#[tokio::test]
async fn a_watch_with_a_selector_sees_what_comes_into_sight_and_leaves_it() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, "default");
    let first = maps.create(&PostParams::default(), &config_map("a", "hidden")).await.unwrap();
    for label in ["seen", "seen", "hidden"] {
        let patch = Patch::Merge(
            json!({ "metadata": { "labels": { "state": label } }, "data": { "n": label.len().to_string() } }),
        );
        maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    }
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "state": "seen" } } }));
    maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    let seen = WatchParams::default().labels("state=seen");
    let version = first.resource_version().unwrap();
    assert_eq!(events(&maps, &seen, &version, 3).await, ["added a", "deleted a", "added a"]);
    cluster.stop().await;
}

#[tokio::test]
async fn a_watch_is_told_how_far_it_has_come_if_it_does_not_know() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, "default");
    let elsewhere: Api<ConfigMap> = Api::namespaced(cluster.admin().await, "kube-system");
    let briefly = WatchParams::default().timeout(1);
    let newest = eventually("a watch in which nothing happens ends without a word", PATIENCE, || async {
        let newest = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        match events(&maps, &briefly, &newest, usize::MAX).await {
            silent if silent.is_empty() => Ok(newest),
            told => Err(format!("{told:?}")),
        }
    })
    .await;
    elsewhere.create(&PostParams::default(), &config_map("a", "x")).await.unwrap();
    assert_eq!(events(&maps, &briefly, &newest, usize::MAX).await, ["bookmark"]);
    cluster.stop().await;
}

#[tokio::test]
async fn a_version_that_is_no_longer_kept_is_gone() {
    let ground = Ground::new();
    let path = ground.path("kubeapi.db").to_str().unwrap().to_owned();
    let cluster = ground.start(Location::sqlite(path.clone())).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, "default");
    maps.create(&PostParams::default(), &config_map("a", "x")).await.unwrap();
    let newest = cluster.store.revision().await.unwrap();
    cluster.store.compact(newest).await.unwrap();
    // A new server has nothing in memory, so it has to ask the store.
    let cluster = cluster.stop().await.start(Location::sqlite(path)).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, "default");
    assert_eq!(events(&maps, &WatchParams::default(), "1", 1).await, ["error 410"]);
    cluster.stop().await;
}

#[tokio::test]
async fn a_watch_resumes_across_a_restart() {
    let ground = Ground::new();
    let path = ground.path("kubeapi.db").to_str().unwrap().to_owned();
    let cluster = ground.start(Location::sqlite(path.clone())).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, "default");
    let first = maps.create(&PostParams::default(), &config_map("a", "x")).await.unwrap();
    maps.create(&PostParams::default(), &config_map("b", "x")).await.unwrap();
    let cluster = cluster.stop().await.start(Location::sqlite(path)).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, "default");
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let version = first.resource_version().unwrap();
    assert_eq!(events(&maps, &WatchParams::default(), &version, 2).await, ["added b", "deleted a"]);
    cluster.stop().await;
}

#[tokio::test]
async fn open_watches_and_connections_nobody_uses_do_not_hold_up_the_end() {
    let cluster = Cluster::start().await;
    let client = cluster.admin().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let created = maps.create(&PostParams::default(), &config_map("a", "x")).await.unwrap();
    let version = created.resource_version().unwrap();
    let mut watch = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    // One that is not even read.
    let unread = Api::<ConfigMap>::all(client).watch(&WatchParams::default(), "0").await.unwrap();
    let idle = cluster.admin().await;
    idle.apiserver_version().await.unwrap();
    let silent = tokio::net::TcpStream::connect(cluster.address).await.unwrap();

    let (_, ended) = tokio::join!(cluster.stop(), watch.try_next());
    assert!(ended.unwrap().is_none());
    drop((unread, idle, silent));
}

#[tokio::test]
async fn informers_work_by_list_and_by_stream() {
    let cluster = Cluster::start().await;
    let client = cluster.admin().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.create(&PostParams::default(), &config_map("a", "x")).await.unwrap();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut stream = watcher(maps.clone(), config).boxed();
        let mut seen = Vec::new();
        while !matches!(seen.last(), Some(watcher::Event::InitDone)) {
            let event = tokio::time::timeout(PATIENCE, stream.try_next()).await.unwrap().unwrap();
            seen.push(event.unwrap());
        }
        let initial = seen.iter().filter(|event| matches!(event, watcher::Event::InitApply(_))).count();
        assert_eq!(initial, 1);
        maps.create(&PostParams::default(), &config_map("b", "x")).await.unwrap();
        let next = tokio::time::timeout(PATIENCE, stream.try_next()).await.unwrap().unwrap();
        assert!(matches!(next, Some(watcher::Event::Apply(map)) if map.name_any() == "b"));
        maps.delete("b", &DeleteParams::default()).await.unwrap();
        let next = tokio::time::timeout(PATIENCE, stream.try_next()).await.unwrap().unwrap();
        assert!(matches!(next, Some(watcher::Event::Delete(map)) if map.name_any() == "b"));
    }
    cluster.stop().await;
}
