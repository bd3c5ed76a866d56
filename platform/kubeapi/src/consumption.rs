//! `metrics.k8s.io`: what nodes and pods use at the moment, for `kubectl top` and whoever scales by it.
//!
//! Nothing of it is kept: the kubelets of the nodes concerned are asked, all at once, and each has a few seconds. What a node
//! does not tell in time is missing from a list, as it is wherever metrics are collected.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use http::StatusCode;
use serde_json::{Value, json};
use tracing::debug;

use crate::answer;
use crate::request::Verb;
use crate::selector::LabelSelector;
use crate::server::{Call, Server};
use crate::status::Failure;
use crate::storage::Listing;
use crate::strategy;

pub(crate) const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "metrics.k8s.io/v1beta1";
/// How long a kubelet may take, which may have to wait a second for something to compare with.
const DEADLINE: Duration = Duration::from_secs(8);
/// How many kubelets are asked at a time.
const AT_ONCE: usize = 32;
/// What a kubelet that says it tells the window of its rates in; others count over about this long.
const WINDOW: &str = "x-pilothouse-window";
const USUAL_WINDOW: f64 = 15.0;
/// A kubelet that says more than this is not believed.
const LARGEST: usize = 64 << 20;

/// What a kubelet has told.
struct Told {
    summary: Value,
    window: f64,
}

pub(crate) async fn handle(call: &Call) -> Result<Response, Failure> {
    let objects = match call.resource.plural.as_ref() {
        "nodes" => nodes(call).await?,
        _ => pods(call).await?,
    };
    if call.info.verb == Verb::List {
        let objects: Vec<_> = objects.iter().map(|object| Bytes::from(object.to_string())).collect();
        let list = call.form()?.list(&call.resource, &objects, json!({}), call.server.clock.now());
        return Ok(answer::document(StatusCode::OK, list));
    }
    let object = objects.into_iter().next();
    call.show(StatusCode::OK, object.ok_or_else(|| Failure::not_found(&call.resource, call.name()))?)
}

async fn nodes(call: &Call) -> Result<Vec<Value>, Failure> {
    let nodes = stored(call, "nodes", None).await?;
    let told = ask_all(&call.server, &nodes).await;
    let mut objects = Vec::new();
    for node in &nodes {
        let name = name_of(node);
        let Some(told) = told.get(name) else { continue };
        let mut object = object(call, node, told, &told.summary["node"]);
        object["usage"] = usage(&told.summary["node"]);
        objects.push(object);
    }
    Ok(objects)
}

async fn pods(call: &Call) -> Result<Vec<Value>, Failure> {
    let namespace = call.address.namespace.as_deref();
    let pods = stored(call, "pods", namespace).await?;
    let running: Vec<_> = pods.iter().filter(|pod| pod["status"]["phase"] == "Running").collect();
    let mut nodes = stored_all(call, "nodes", None).await?;
    nodes.retain(|node| running.iter().any(|pod| pod["spec"]["nodeName"] == name_of(node)));
    let told = ask_all(&call.server, &nodes).await;
    let mut objects = Vec::new();
    for pod in running {
        let Some(told) = pod["spec"]["nodeName"].as_str().and_then(|node| told.get(node)) else { continue };
        let found = told.summary["pods"].as_array().into_iter().flatten();
        // By its name: what a kubelet runs from a file has another uid there.
        let is_it = |one: &&Value| {
            one["podRef"]["name"] == pod["metadata"]["name"]
                && one["podRef"]["namespace"] == pod["metadata"]["namespace"]
        };
        let Some(found) = found.into_iter().find(is_it) else { continue };
        let containers = found["containers"].as_array().into_iter().flatten();
        let containers: Vec<_> = containers
            .map(|container| json!({ "name": container["name"], "usage": usage(container) }))
            .collect();
        if containers.is_empty() {
            continue;
        }
        let mut object = object(call, pod, told, found);
        object["metadata"]["namespace"] = pod["metadata"]["namespace"].clone();
        object["containers"] = json!(containers);
        objects.push(object);
    }
    Ok(objects)
}

/// What a pod's or a node's metrics have in common.
fn object(call: &Call, about: &Value, told: &Told, measured: &Value) -> Value {
    let now = strategy::timestamp(call.server.clock.now());
    let mut metadata = json!({ "name": name_of(about), "creationTimestamp": now });
    if !about["metadata"]["labels"].is_null() {
        metadata["labels"] = about["metadata"]["labels"].clone();
    }
    let at = measured["cpu"]["time"].as_str().and_then(|time| time.parse().ok()).map(strategy::timestamp);
    json!({
        "kind": call.resource.kind,
        "apiVersion": VERSION,
        "metadata": metadata,
        "timestamp": at.unwrap_or(now),
        "window": format!("{:.3}s", told.window),
    })
}

fn usage(measured: &Value) -> Value {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    json!({
        "cpu": format!("{}n", number(&measured["cpu"]["usageNanoCores"])),
        "memory": format!("{}Ki", number(&measured["memory"]["workingSetBytes"]) / 1024),
    })
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Objects of a kind that the call is about.
async fn stored(call: &Call, plural: &str, namespace: Option<&str>) -> Result<Vec<Value>, Failure> {
    let labels = call.info.query.get("labelSelector").map(LabelSelector::parse).transpose()?;
    let mut objects = stored_all(call, plural, namespace).await?;
    objects.retain(|object| {
        call.address.name.as_deref().is_none_or(|name| name == name_of(object))
            && labels.as_ref().is_none_or(|labels| labels.matches(object))
    });
    Ok(objects)
}

async fn stored_all(call: &Call, plural: &str, namespace: Option<&str>) -> Result<Vec<Value>, Failure> {
    let resource = call.server.built_in("", plural)?;
    let listing =
        Listing { resource: &resource, namespace, name: None, limit: 0, continue_token: None, exactly: None };
    let page = call.server.storage.page(&listing, |_| true).await?;
    Ok(page.objects.iter().filter_map(|bytes| serde_json::from_slice(bytes).ok()).collect())
}

/// What the kubelets of some nodes tell, by the names of the nodes.
async fn ask_all(server: &Server, nodes: &[Value]) -> BTreeMap<String, Told> {
    let asked: Vec<BoxFuture<'_, _>> = nodes.iter().map(|node| ask_one(server, node).boxed()).collect();
    let told: Vec<_> = futures::stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
    told.into_iter().flatten().collect()
}

async fn ask_one(server: &Server, node: &Value) -> Option<(String, Told)> {
    let name = name_of(node).to_owned();
    match tokio::time::timeout(DEADLINE, ask(server, node)).await {
        Ok(Ok(told)) => Some((name, told)),
        Ok(Err(failure)) => {
            debug!(node = name, failure.message, "a node does not tell what it uses");
            None
        }
        Err(_) => {
            debug!(node = name, "a node did not tell in time what it uses");
            None
        }
    }
}

async fn ask(server: &Server, node: &Value) -> Result<Told, Failure> {
    let path = "/stats/summary?only_cpu_and_memory=true";
    let mut answered = server.kubelets.get(node, path).await?;
    let mut text = Vec::new();
    while let Some(bytes) = answered.next().await {
        let bytes = bytes.map_err(|error| Failure::internal(error.to_string()))?;
        text.extend_from_slice(&bytes);
        if text.len() > LARGEST {
            return Err(Failure::internal("the kubelet's answer is too long"));
        }
    }
    if !answered.status.is_success() {
        return Err(Failure::internal(String::from_utf8_lossy(&text).into_owned()));
    }
    let summary = serde_json::from_slice(&text).map_err(|error| Failure::internal(error.to_string()))?;
    let window = answered.headers.get(WINDOW).and_then(|value| value.to_str().ok());
    let window = window.and_then(|seconds| seconds.parse().ok()).unwrap_or(USUAL_WINDOW);
    Ok(Told { summary, window })
}
