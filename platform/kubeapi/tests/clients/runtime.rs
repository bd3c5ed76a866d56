//! kube-rs' runtime: a controller with objects it owns, across a definition that comes late.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::reflector::store;
use kube::runtime::{Controller, WatchStreamExt as _, reflector, watcher};
use kube::{Api, Client, Resource as _};
use pilothouse_kubeapi::testing::{Cluster, Options};
use pilothouse_test_support::eventually;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(60);

/// Every ConfigMap has a Secret of its name, which belongs to it.
async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let name = map.metadata.name.clone().unwrap_or_default();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": name, "ownerReferences": [map.controller_owner_ref(&())] },
        "stringData": { "of": name },
    });
    let secrets: Api<Secret> = Api::namespaced(client.as_ref().clone(), "default");
    secrets.patch(&name, &PatchParams::apply("keeper").force(), &Patch::Apply(&secret)).await?;
    Ok(Action::await_change())
}

#[tokio::test]
async fn a_controller_keeps_what_it_owns() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let ours = watcher::Config::default().labels("kept=yes");
    let controller = Controller::new(maps.clone(), ours)
        .owns(secrets.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::new(client.clone()))
        .for_each(|_| std::future::ready(()));
    let work = async {
        let map = |name: &str, kept: &str| {
            serde_json::from_value(json!({ "metadata": { "name": name, "labels": { "kept": kept } } }))
                .unwrap()
        };
        maps.create(&PostParams::default(), &map("first", "yes")).await.unwrap();
        maps.create(&PostParams::default(), &map("other", "no")).await.unwrap();
        for _ in 0..2 {
            eventually("the secret is there", PATIENCE, || async {
                secrets.get_opt("first").await.unwrap().map(drop).ok_or("there is none")
            })
            .await;
            // What it owns and somebody else deletes comes back.
            secrets.delete("first", &DeleteParams::default()).await.unwrap();
        }
        assert!(secrets.get_opt("other").await.unwrap().is_none());
    };
    tokio::select! {
        () = controller => panic!("the controller ended"),
        () = work => {}
    }
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn a_reflector_has_what_the_server_has() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await.unwrap(), "default");
    let (reader, writer) = store();
    let stream = reflector(writer, watcher(maps.clone(), watcher::Config::default().streaming_lists()));
    let stream = stream.default_backoff().touched_objects().try_for_each(|_| std::future::ready(Ok(())));
    let work = async {
        for number in 0..50 {
            let map =
                serde_json::from_value(json!({ "metadata": { "name": format!("map-{number}") } })).unwrap();
            maps.create(&PostParams::default(), &map).await.unwrap();
            if number % 3 == 0 {
                maps.delete(&format!("map-{number}"), &DeleteParams::default()).await.unwrap();
            }
        }
        let there = maps.list(&ListParams::default()).await.unwrap().items.len();
        eventually("the reflector is equal", PATIENCE, || async {
            let seen = reader.state().len();
            if seen == there { Ok(()) } else { Err(format!("{seen} of {there}")) }
        })
        .await;
    };
    tokio::select! {
        ended = stream => panic!("the stream ended: {ended:?}"),
        () = work => {}
    }
    cluster.stop().await.unwrap();
}
