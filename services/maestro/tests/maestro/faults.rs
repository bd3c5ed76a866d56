//! Whatever happens on the way, and whoever dies meanwhile: in the end everything is as the source wants it, and on the way
//! there nothing ever went back to something older.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::WatchParams;
use kube::core::WatchEvent;
use kube::{Api, ResourceExt};
use pilothouse_crds::AppliedManifestWork;
use pilothouse_maestro_api::{Action, CloudEvent, Error, EventType, Subresource, work_uid};
use pilothouse_runtime::{Chain, OnExit, Shutdown, Tasks};
use pilothouse_test_support::{environment, eventually, postgres};

use crate::cluster::{Cluster, PATIENCE};
use crate::packets::{Recorder, publish};
use crate::proxy::Proxy;
use crate::world::{BrokerPart, CONSUMER, SOURCE, Server, Storage, World, start_agent, work};

/// The contents of every object, as they followed each other.
pub(crate) type Histories = Arc<Mutex<BTreeMap<String, Vec<u32>>>>;

/// Follows all objects of the test from now on.
pub(crate) async fn follow(cluster: &Cluster) -> (Histories, Tasks) {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    let start = maps.list(&Default::default()).await.unwrap().metadata.resource_version.unwrap_or_default();
    let histories = Histories::default();
    let tasks = Tasks::new("follow", Shutdown::new());
    let seen = histories.clone();
    tasks.spawn("follow", OnExit::Expendable, async move {
        let parameters = WatchParams::default().timeout(290);
        let mut from = start;
        loop {
            let mut events = std::pin::pin!(maps.watch(&parameters, &from).await?);
            while let Some(event) = events.next().await {
                let (map, is_there) = match event? {
                    WatchEvent::Added(map) | WatchEvent::Modified(map) => (map, true),
                    WatchEvent::Deleted(map) => (map, false),
                    _ => continue,
                };
                from = map.resource_version().unwrap_or_default();
                let content = map.data.as_ref().and_then(|data| data.get("k")?.parse().ok());
                if let Some(content) = content.filter(|_| is_there) {
                    seen.lock().unwrap().entry(map.name_any()).or_default().push(content);
                }
            }
        }
    });
    (histories, tasks)
}

/// Sends until it is taken: the server may just have died.
pub(crate) async fn insist<F: Future<Output = Result<(), Error>>>(mut send: impl FnMut() -> F) {
    eventually("the source's word is taken", PATIENCE, || {
        let sending = send();
        async {
            match sending.await {
                // Taken by the one that died before it could say so.
                Ok(()) | Err(Error::Conflict(_)) => Ok(()),
                Err(error) => Err(Chain(&error).to_string()),
            }
        }
    })
    .await;
}

async fn storm(broker: BrokerPart, folder: &Path, storage: Storage, seed: u64) {
    let names: Vec<_> = (0..4).map(|number| format!("w{number}")).collect();
    let proxy = Proxy::start(broker.port, seed).await;
    let cluster = Cluster::start().await;
    let (histories, _following) = follow(&cluster).await;
    let server = Server::start_with(folder, proxy.port, &storage).await;
    let agent = Some(start_agent(&cluster, proxy.port).await);
    let mut world = World { cluster, broker, agent, server };
    let rounds = u32::try_from(environment::rounds(9, 60)).unwrap();
    for round in 1..=rounds {
        for name in &names {
            let (source, wanted) = (world.server.source.clone(), work(name, &round.to_string()));
            if round == 1 {
                insist(|| source.work_create(&wanted)).await;
            } else {
                insist(|| source.work_update(&wanted, 0)).await;
            }
        }
        // One of both dies in the middle of it.
        if round % 3 == 1 {
            world.server.kill().await;
            world.server = Server::start_with(folder, proxy.port, &storage).await;
        } else if round % 3 == 2 {
            world.agent.take().unwrap().stop().await;
            world.agent = Some(start_agent(&world.cluster, proxy.port).await);
        }
    }
    for name in &names[..2] {
        let (source, wanted) = (world.server.source.clone(), work(name, ""));
        insist(|| source.work_delete(&wanted)).await;
    }
    proxy.calm();

    for (index, name) in names.iter().enumerate() {
        let id = work_uid(SOURCE, CONSUMER, name).to_string();
        let last = rounds.to_string();
        let expected = (index >= 2).then_some(last.as_str());
        world.until_map(name, expected).await;
        eventually("the server knows how it is", PATIENCE, || async {
            let bundle =
                world.server.rest.resource_bundle_get(&id).await.map_err(|error| error.to_string())?;
            let is_so = match (&bundle, expected) {
                (None, None) => true,
                (Some(bundle), Some(_)) => bundle.status.as_ref().is_some_and(|status| {
                    status.observed_version == bundle.version && status.status.is_true("Applied")
                }),
                _ => false,
            };
            if is_so { Ok(()) } else { Err(format!("seed {seed}: {bundle:?}")) }
        })
        .await;
    }
    let records: Api<AppliedManifestWork> = Api::all(world.cluster.client.clone());
    // What an agent that forgot everything was told late is taken back as soon as it reports on it.
    eventually("no record is left behind, or lost", PATIENCE, || async {
        let left = records.list(&Default::default()).await.map_err(|error| error.to_string())?.items.len();
        if left == names.len() - 2 { Ok(()) } else { Err(format!("seed {seed}: {left} records")) }
    })
    .await;
    let counts = proxy.counts();
    assert!(counts.iter().all(|count| *count > 0), "seed {seed}: nothing happened, {counts:?}");
    let histories = histories.lock().unwrap();
    for (name, history) in histories.iter() {
        assert!(history.is_sorted(), "seed {seed}: {name} went back: {history:?}");
        // Each content is written once; the second write of the first is that of its owner, at most.
        let writes = history.len();
        let distinct = history.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(writes, distinct, "seed {seed}: {name} was written without effect: {history:?}");
    }
}

#[tokio::test]
async fn everything_converges_over_our_broker_and_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    storm(BrokerPart::ours(0).await, folder.path(), Storage::Sqlite, 5).await;
}

#[tokio::test]
async fn everything_converges_over_mosquitto_and_postgresql() {
    if !BrokerPart::has_mosquitto() {
        return;
    }
    let Some(server) = postgres::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::Postgres(server.fresh_database());
    storm(BrokerPart::mosquitto().await, folder.path(), storage, 12).await;
}

/// So late that even the agent that knew of it is gone: what it says must not bring a bundle back for good.
#[tokio::test]
async fn order_that_comes_after_everybody_forgot_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start(folder.path()).await;
    let source = &world.server.source;
    source.work_create(&work("known", "1")).await.unwrap();
    world.until_map("known", Some("1")).await;
    let mut recorder = Recorder::start(world.broker.port).await;
    let kind = EventType::new(Subresource::Spec, Action::Create);
    let order = CloudEvent::new("maestro", &kind, jiff::Timestamp::UNIX_EPOCH)
        .with("clustername", CONSUMER)
        .with("resourceid", work_uid(SOURCE, CONSUMER, "stray").to_string())
        .with("resourceversion", 1)
        .with_data(serde_json::to_vec(&work("stray", "1").bundle).unwrap());
    let topic = format!("sources/maestro/consumers/{CONSUMER}/sourceevents");
    publish(world.broker.port, &topic, &order).await;
    recorder.find(&("removal", "spec.resync_response", |seen| seen.has("ce-deletiontimestamp"))).await;
    recorder
        .find(&("farewell", "status.update_request", |seen| seen.text().contains("ManifestsDeleted")))
        .await;
    world.until_map("stray", None).await;

    // What was really made again, under the same name, is there.
    source.work_delete(&work("known", "")).await.unwrap();
    world.until_map("known", None).await;
    let id = work_uid(SOURCE, CONSUMER, "known").to_string();
    eventually("it is forgotten", PATIENCE, || async {
        match world.server.rest.resource_bundle_get(&id).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    source.work_create(&work("known", "2")).await.unwrap();
    world.until_map("known", Some("2")).await;
}
