//! `kill -9` under load: nothing acknowledged is lost, and a watch resumes where it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, ResourceExt as _};
use pilothouse_kubeapi::testing::{Cluster, Options};
use pilothouse_store::Location;
use pilothouse_test_support::eventually;
use pilothouse_test_support::process::{self, Running};
use rand::Rng as _;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;

const ROUNDS: usize = 50;
const LONG_ROUNDS: usize = 500;
const WRITERS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(120);
const DATABASE: &str = "PILOTHOUSE_TEST_DATABASE";
const KUBECONFIG: &str = "PILOTHOUSE_TEST_KUBECONFIG";

/// What writers were told, and what the watch has seen.
#[derive(Default)]
struct Book {
    /// By name: the version of the last write that was answered.
    acknowledged: BTreeMap<String, u64>,
    /// By name: the last version that was seen.
    seen: BTreeMap<String, u64>,
    /// The version to resume from.
    place: u64,
}

struct Ground {
    folder: TempDir,
    book: Arc<Mutex<Book>>,
}

fn version(map: &ConfigMap) -> u64 {
    map.resource_version().unwrap().parse().unwrap()
}

/// A server that is killed; only meaningful when started by the test below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_in_a_child_process() {
    if !process::is_child() {
        return;
    }
    let place = |name: &str| PathBuf::from(std::env::var_os(name).unwrap());
    let store = Location::sqlite(place(DATABASE).to_str().unwrap());
    let cluster = Cluster::start(Options { store, ..Options::default() }).await.unwrap();
    let kubeconfig = cluster.kubeconfig("admin", &["system:masters"]).unwrap();
    let unfinished = place(KUBECONFIG).with_extension("unfinished");
    fs::write(&unfinished, kubeconfig).unwrap();
    fs::rename(unfinished, place(KUBECONFIG)).unwrap();
    std::future::pending::<()>().await;
}

impl Ground {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a server on the store, and waits until it answers.
    async fn start(&self) -> (Running, Api<ConfigMap>) {
        let kubeconfig = self.path("kubeconfig");
        let _ = fs::remove_file(&kubeconfig);
        let mut command = process::child_of_this_test("kills::server_in_a_child_process");
        command.env(DATABASE, self.path("objects.db")).env(KUBECONFIG, &kubeconfig);
        command.stdout(std::process::Stdio::null());
        let server = Running::spawn(command).unwrap();
        let maps = eventually("the server answers", PATIENCE, || async {
            let maps = maps(&kubeconfig).await.ok_or("it has not said where it is")?;
            maps.list(&ListParams::default().limit(1)).await.map_err(|_| "it does not answer")?;
            Ok::<_, &str>(maps)
        })
        .await;
        (server, maps)
    }

    /// What was acknowledged is there, and at the version that was acknowledged or a later one.
    async fn check(&self, maps: &Api<ConfigMap>) {
        let there: BTreeMap<_, _> = maps
            .list(&ListParams::default())
            .await
            .unwrap()
            .iter()
            .map(|map| (map.name_any(), version(map)))
            .collect();
        for (name, acknowledged) in &self.book.lock().unwrap().acknowledged {
            let found = there.get(name);
            assert!(
                found.is_some_and(|found| found >= acknowledged),
                "{name}: {found:?}, not {acknowledged}"
            );
        }
    }
}

async fn maps(kubeconfig: &Path) -> Option<Api<ConfigMap>> {
    let config = Kubeconfig::read_from(kubeconfig).ok()?;
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.ok()?;
    Some(Api::namespaced(kube::Client::try_from(config).ok()?, "default"))
}

/// Creates and changes objects until the server is gone.
async fn write(maps: Api<ConfigMap>, book: Arc<Mutex<Book>>, writer: String) {
    for number in 0.. {
        let name = format!("{writer}-{}", number / 3);
        let map = json!({ "metadata": { "name": name }, "data": { "number": number.to_string() } });
        let mut map: ConfigMap = serde_json::from_value(map).unwrap();
        let written = if number % 3 == 0 {
            maps.create(&PostParams::default(), &map).await
        } else {
            map.metadata.resource_version = None;
            maps.replace(&name, &PostParams::default(), &map).await
        };
        let Ok(written) = written else { return };
        book.lock().unwrap().acknowledged.insert(name, version(&written));
    }
}

/// Follows from where the last watch was until the server is gone.
async fn follow(maps: Api<ConfigMap>, book: Arc<Mutex<Book>>) {
    let place = book.lock().unwrap().place;
    let parameters = WatchParams::default().disable_bookmarks();
    let Ok(stream) = maps.watch(&parameters, &place.to_string()).await else { return };
    let mut stream = std::pin::pin!(stream);
    while let Some(Ok(event)) = stream.next().await {
        let mut book = book.lock().unwrap();
        match event {
            WatchEvent::Added(map) | WatchEvent::Modified(map) => {
                let version = version(&map);
                assert!(version > book.place, "{version} comes after {}", book.place);
                book.place = version;
                book.seen.insert(map.name_any(), version);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_a_watch_misses_nothing() {
    let ground = Ground { folder: tempfile::tempdir().unwrap(), book: Arc::default() };
    let (server, maps) = ground.start().await;
    let place = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    ground.book.lock().unwrap().place = place.parse().unwrap();
    server.kill();

    let rounds = if std::env::var_os("PILOTHOUSE_TEST_LONG").is_some() { LONG_ROUNDS } else { ROUNDS };
    for round in 0..rounds {
        let (server, maps) = ground.start().await;
        ground.check(&maps).await;
        let before = ground.book.lock().unwrap().acknowledged.len();
        let mut tasks = JoinSet::new();
        tasks.spawn(follow(maps.clone(), Arc::clone(&ground.book)));
        for writer in 0..WRITERS {
            tasks.spawn(write(maps.clone(), Arc::clone(&ground.book), format!("round-{round}-{writer}")));
        }
        // In the middle of it, wherever that is.
        let enough = before + rand::rng().random_range(1..60);
        eventually("writers got somewhere", PATIENCE, || async {
            let count = ground.book.lock().unwrap().acknowledged.len();
            if count >= enough { Ok(()) } else { Err(format!("{count} of {enough}")) }
        })
        .await;
        server.kill();
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    }

    let (server, maps) = ground.start().await;
    ground.check(&maps).await;
    let mut tasks = JoinSet::new();
    tasks.spawn(follow(maps, Arc::clone(&ground.book)));
    eventually("the watch has seen everything", PATIENCE, || async {
        let book = ground.book.lock().unwrap();
        let missing = book.acknowledged.iter().find(|(name, version)| book.seen.get(*name) < Some(*version));
        missing.map_or(Ok(()), |missing| Err(format!("{missing:?}")))
    })
    .await;
    println!("{} objects acknowledged in {rounds} rounds", ground.book.lock().unwrap().acknowledged.len());
    server.kill();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}
