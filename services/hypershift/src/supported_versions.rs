//! Which versions this operator serves, where `hcp` looks for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use pilothouse_informer::{Informer, ObjectKey, watcher};
use pilothouse_runtime::{Chain, OnExit, Policy, Tasks};
use serde_json::json;
use tokio::sync::Notify;
use tracing::debug;

use crate::apply;
use crate::versions;

const NAME: &str = "supported-versions";
/// Keys of the ConfigMap.
const VERSIONS: &str = "supported-versions";
const SERVER: &str = "server-version";
const LABEL: &str = "hypershift.openshift.io/supported-versions";

/// Writes it down as soon as there is a namespace for it, and again whenever somebody changes or deletes it.
pub(crate) fn spawn(tasks: &Tasks, client: &Client, namespace: &str) {
    let changed = Arc::new(Notify::new());
    let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
    let (by_map, by_namespace) = (Arc::clone(&changed), Arc::clone(&changed));
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let written = Informer::new(config_maps.clone(), named(NAME))
        .on_change(move |_| by_map.notify_one())
        .spawn(tasks, "supported-versions-written");
    Informer::new(Api::<Namespace>::all(client.clone()), named(namespace))
        .on_change(move |_| by_namespace.notify_one())
        .spawn(tasks, "supported-versions-namespace");
    let (desired, key) = (config_map(namespace), ObjectKey::namespaced(namespace, NAME));
    tasks.spawn("supported-versions", OnExit::Expendable, async move {
        written.synced().await;
        loop {
            let mut delays = Policy::RECONCILE_ERROR.delays();
            while let Err(error) = apply::ensure(&config_maps, written.get(&key), &desired).await {
                debug!(error = %Chain(&error), "the served versions are not written down yet");
                let Some(delay) = delays.next() else { break };
                tokio::select! {
                    () = changed.notified() => {}
                    () = tokio::time::sleep(delay) => {}
                }
            }
            changed.notified().await;
        }
    });
}

fn config_map(namespace: &str) -> ConfigMap {
    let versions = json!({ "versions": versions::minors() }).to_string();
    ConfigMap {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(NAME.to_owned()),
            labels: Some(BTreeMap::from([(LABEL.to_owned(), "true".to_owned())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([
            (VERSIONS.to_owned(), versions),
            (SERVER.to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ])),
        ..ConfigMap::default()
    }
}
