//! What every cluster has from its first moment: namespaces, roles, and the Service that leads to this server.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use crate::catalogue::Resource;
use crate::error::Error;
use crate::server::Server;
use crate::status::Failure;
use crate::storage::WriteError;
use crate::verbs::create;

mod policy;

pub(crate) use policy::node_rules;

const RBAC: &str = "rbac.authorization.k8s.io";
const MANAGER: &str = "kube-apiserver";
/// How many roles and bindings are under way at once.
const AT_ONCE: usize = 64;

/// Makes what is missing. What is there and was changed by somebody stays as it is, except for where this server is.
///
/// Each object is a write that waits for the disk, so what does not depend on one another is written side by side.
pub(crate) async fn ensure(server: &Arc<Server>) -> Result<(), Error> {
    let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];
    let namespaces =
        namespaces.map(|name| make(server, "", "namespaces", "", json!({ "metadata": { "name": name } })));
    try_join_all(namespaces).await?;
    let advertised = server.config.advertise.unwrap_or(server.config.listen);
    futures::try_join!(
        ensure_priority_classes(server),
        ensure_policy(server),
        make(server, "", "configmaps", "kube-system", token_tracking(server)),
        make(server, "", "services", "default", service(server, advertised)),
        keep(server, "", "endpoints", endpoints(advertised)),
        keep(server, "discovery.k8s.io", "endpointslices", endpoint_slice(advertised)),
    )?;
    Ok(())
}

async fn ensure_priority_classes(server: &Arc<Server>) -> Result<(), Error> {
    let classes = [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
    let classes = classes.map(|(name, value)| {
        let class = json!({
            "metadata": { "name": name },
            "value": value,
            "description": "For pods without which there is no cluster.",
        });
        make(server, "scheduling.k8s.io", "priorityclasses", "", class)
    });
    try_join_all(classes).await.map(drop)
}

/// Makes the roles and bindings that are missing, and adds what a newer version of the server has to those that are there.
async fn ensure_policy(server: &Arc<Server>) -> Result<(), Error> {
    let problem = |error: serde_json::Error| Error::Bootstrap {
        object: "the roles that every cluster has".to_owned(),
        problem: error.to_string(),
    };
    let written = stream::iter(policy::items(&server.config).map_err(problem)?)
        .map(|item| ensure_item(server, item))
        .buffer_unordered(AT_ONCE);
    written.try_collect::<()>().await
}

async fn ensure_item(server: &Arc<Server>, item: policy::Item) -> Result<(), Error> {
    let policy::Item { plural, namespace, object } = item;
    let failed = |failure: Failure| failed_at(plural, name_of(&object), &failure);
    let resource = server.built_in(RBAC, plural).map_err(failed)?;
    loop {
        let Some(stored) =
            server.storage.get(&resource, &namespace, name_of(&object)).await.map_err(failed)?
        else {
            return make_missing(server, &resource, &namespace, object).await;
        };
        let Some(new) = policy::updated(plural, &stored.value, &object) else { return Ok(()) };
        match server.storage.replace(&resource, &stored, &new).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Failed(failure)) => return Err(failed(failure)),
            // Somebody was faster; look again.
            Err(_) => {}
        }
    }
}

/// Since when it is known of old tokens whether anybody uses them. There are none here, so that is since the beginning.
fn token_tracking(server: &Server) -> Value {
    let today = server.clock.now().strftime("%Y-%m-%d").to_string();
    json!({
        "metadata": { "name": "kube-apiserver-legacy-service-account-token-tracking" },
        "data": { "since": today },
    })
}

/// Makes an object, unless it is there.
async fn make(
    server: &Arc<Server>,
    group: &str,
    plural: &str,
    namespace: &str,
    object: Value,
) -> Result<(), Error> {
    let failed = |failure: Failure| failed_at(plural, name_of(&object), &failure);
    let resource = server.built_in(group, plural).map_err(failed)?;
    if server.storage.get(&resource, namespace, name_of(&object)).await.map_err(failed)?.is_some() {
        return Ok(());
    }
    make_missing(server, &resource, namespace, object).await
}

/// Makes an object that was not there a moment ago.
async fn make_missing(
    server: &Arc<Server>,
    resource: &Resource,
    namespace: &str,
    mut object: Value,
) -> Result<(), Error> {
    let name = name_of(&object).to_owned();
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    let Err(failure) = create::create(server, resource, namespace, object, MANAGER, false).await else {
        return Ok(());
    };
    // Another replica may have been faster, and may have what this one wanted, such as the Service's address.
    let failed = |failure: Failure| failed_at(&resource.plural, &name, &failure);
    match server.storage.get(resource, namespace, &name).await.map_err(failed)? {
        Some(_) => Ok(()),
        None => Err(failed(failure)),
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn failed_at(plural: &str, name: &str, failure: &Failure) -> Error {
    Error::Bootstrap { object: format!("{plural}/{name}"), problem: failure.to_string() }
}

/// Makes an object in `default`, or puts everything but its metadata right.
async fn keep(server: &Arc<Server>, group: &str, plural: &str, object: Value) -> Result<(), Error> {
    make(server, group, plural, "default", object.clone()).await?;
    let failed = |problem: String| Error::Bootstrap { object: format!("{plural}/kubernetes"), problem };
    let resource = server.built_in(group, plural).map_err(|failure| failed(failure.to_string()))?;
    loop {
        let stored = server.storage.get(&resource, "default", "kubernetes").await;
        let Some(stored) = stored.map_err(|failure| failed(failure.to_string()))? else { return Ok(()) };
        let mut wanted = stored.value.clone();
        if let (Some(wanted), Some(object)) = (wanted.as_object_mut(), object.as_object()) {
            wanted.extend(
                object
                    .iter()
                    .filter(|(key, _)| *key != "metadata")
                    .map(|(key, value)| (key.clone(), value.clone())),
            );
        }
        if wanted == stored.value {
            return Ok(());
        }
        match server.storage.replace(&resource, &stored, &wanted).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Failed(failure)) => return Err(failed(failure.to_string())),
            Err(_) => {}
        }
    }
}

fn service(server: &Server, advertised: SocketAddr) -> Value {
    json!({
        "metadata": { "name": "kubernetes", "labels": { "component": "apiserver", "provider": "kubernetes" } },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": server.allocator.first().to_string(),
            "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": advertised.port() }],
            "sessionAffinity": "None",
        },
    })
}

fn endpoints(advertised: SocketAddr) -> Value {
    json!({
        "metadata": {
            "name": "kubernetes",
            "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" },
        },
        "subsets": [{
            "addresses": [{ "ip": advertised.ip().to_string() }],
            "ports": [{ "name": "https", "port": advertised.port(), "protocol": "TCP" }],
        }],
    })
}

fn endpoint_slice(advertised: SocketAddr) -> Value {
    json!({
        "metadata": { "name": "kubernetes", "labels": { "kubernetes.io/service-name": "kubernetes" } },
        "addressType": if advertised.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{ "addresses": [advertised.ip().to_string()], "conditions": { "ready": true } }],
        "ports": [{ "name": "https", "port": advertised.port(), "protocol": "TCP" }],
    })
}
