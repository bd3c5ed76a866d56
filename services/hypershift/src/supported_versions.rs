//! Which versions this operator serves, where `hcp` looks for it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use pilothouse_runtime::{Chain, Policy};
use serde_json::json;
use tracing::debug;

use crate::apply;
use crate::versions;

const NAME: &str = "supported-versions";
/// Keys of the ConfigMap.
const VERSIONS: &str = "supported-versions";
const SERVER: &str = "server-version";
const LABEL: &str = "hypershift.openshift.io/supported-versions";

/// Writes it down, as soon as there is a namespace for it.
pub(crate) async fn publish(client: Client, namespace: String) {
    let config_maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let desired = config_map(&namespace);
    for delay in Policy::RECONCILE_ERROR.delays() {
        match apply::ensure(&config_maps, None, &desired).await {
            Ok(_) => return,
            Err(error) => debug!(error = %Chain(&error), "the served versions are not written down yet"),
        }
        tokio::time::sleep(delay).await;
    }
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
