//! What every cluster has from its first moment: namespaces, roles, and the Service that leads to this server.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

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
const AT_ONCE: usize = 32;

/// Makes what is missing. What is there and was changed by somebody stays as it is, except for where this server is.
pub(crate) async fn ensure(server: &Arc<Server>) -> Result<(), Error> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        make(server, "", "namespaces", "", json!({ "metadata": { "name": name } })).await?;
    }
    for (name, value) in [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
    {
        let class = json!({
            "metadata": { "name": name },
            "value": value,
            "description": "For pods without which there is no cluster.",
        });
        make(server, "scheduling.k8s.io", "priorityclasses", "", class).await?;
    }
    ensure_policy(server).await?;
    make(server, "", "configmaps", "kube-system", token_tracking(server)).await?;
    let advertised = server.config.advertise.unwrap_or(server.config.listen);
    make(server, "", "services", "default", service(server, advertised)).await?;
    keep(server, "", "endpoints", endpoints(advertised)).await?;
    keep(server, "discovery.k8s.io", "endpointslices", endpoint_slice(advertised)).await
}

/// Makes the roles and bindings that are missing, and adds what a newer version of the server has to those that are there.
async fn ensure_policy(server: &Arc<Server>) -> Result<(), Error> {
    let problem = |error: serde_json::Error| Error::Bootstrap {
        object: "the roles that every cluster has".to_owned(),
        problem: error.to_string(),
    };
    // They do not depend on one another, and each is a write that waits for the disk.
    let written = stream::iter(policy::items(&server.config).map_err(problem)?)
        .map(|item| ensure_item(server, item))
        .buffer_unordered(AT_ONCE);
    written.try_collect::<()>().await
}

async fn ensure_item(server: &Arc<Server>, item: policy::Item) -> Result<(), Error> {
    let policy::Item { plural, namespace, object } = item;
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let failed = |failure: Failure| Error::Bootstrap {
        object: format!("{plural}/{name}"),
        problem: failure.to_string(),
    };
    let resource = server.built_in(RBAC, plural).map_err(failed)?;
    loop {
        let Some(stored) = server.storage.get(&resource, &namespace, &name).await.map_err(failed)? else {
            return make(server, RBAC, plural, &namespace, object).await;
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

async fn make(
    server: &Arc<Server>,
    group: &str,
    plural: &str,
    namespace: &str,
    object: Value,
) -> Result<(), Error> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let failed = |failure: Failure| Error::Bootstrap {
        object: format!("{plural}/{name}"),
        problem: failure.to_string(),
    };
    let resource = server.built_in(group, plural).map_err(failed)?;
    if server.storage.get(&resource, namespace, &name).await.map_err(failed)?.is_some() {
        return Ok(());
    }
    let mut object = object;
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    match create::create(server, &resource, namespace, object, MANAGER, false).await {
        Ok(_) => Ok(()),
        // Another replica may have been faster, and may have what this one wanted, such as the Service's address.
        Err(failure) => match server.storage.get(&resource, namespace, &name).await.map_err(failed)? {
            Some(_) => Ok(()),
            None => Err(failed(failure)),
        },
    }
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
