//! What is decided about an object by others: limits and quotas of its namespace, and who writes it.
//!
//! [`prepare`] fills in what limits say, before the object is validated; [`check`] refuses what exceeds
//! them, afterwards. Both read the cache, and neither costs anything where nobody has set a limit.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::authentication::User;
use crate::catalogue::Resource;
use crate::escalation;
use crate::server::Server;
use crate::status::Failure;
use crate::storage::Cache;

mod certificates;
mod classes;
mod limits;
pub(crate) mod nodes;
mod priority;
mod quota;
mod usage;

pub(crate) use quota::{Quotas, Turn, run};

/// Whether this user may write this: nobody grants what they do not have, and a node writes only what is its own.
pub(crate) fn permit(
    server: &Server,
    user: &User,
    namespace: &str,
    change: &nodes::Change<'_>,
) -> Result<(), Failure> {
    escalation::admit(server, user, change.resource, namespace, change.new, change.old)?;
    if change.resource.group == "certificates.k8s.io" {
        certificates::admit(server, user, change)?;
    }
    nodes::admit_write(server, user, change)
}

/// Fills in what others decide about a new object, once what it says itself is complete.
pub(crate) fn complete(server: &Server, resource: &Resource, object: &mut Value) -> Result<(), Failure> {
    let cache = server.storage.cache();
    match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "pods") => classes::of_runtime(cache, resource, object)?,
        ("", "persistentvolumeclaims") => classes::of_claim(cache, object),
        ("networking.k8s.io", "ingresses") => classes::of_ingress(cache, object),
        ("", "nodes") => not_ready(object),
        _ => {}
    }
    Ok(())
}

/// Nothing is placed on a node before it has said that it is ready. Whoever sees to it that nodes are well takes this off.
fn not_ready(node: &mut Value) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    let taints = items(node, "/spec/taints");
    if !taints.iter().any(|taint| taint["key"] == KEY && taint["effect"] == "NoSchedule") {
        let taint = json!({ "key": KEY, "effect": "NoSchedule" });
        node["spec"]["taints"] = json!([taints, &[taint]].concat());
    }
}

/// Fills in a new object.
pub(crate) fn prepare(server: &Server, resource: &Resource, namespace: &str, object: &mut Value) {
    if resource.is("", "pods") {
        limits::defaults(&objects(server.storage.cache(), "limitranges", namespace), object);
    }
}

/// Refuses what would exceed a limit.
pub(crate) async fn check(
    server: &Arc<Server>,
    resource: &Resource,
    namespace: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<Option<Turn>, Failure> {
    if resource.is("scheduling.k8s.io", "priorityclasses") {
        priority::only_default(server, resource, new, old)?;
    }
    if !resource.namespaced {
        return Ok(None);
    }
    let limited = match resource.plural.as_ref() {
        "pods" => old.is_none(),
        plural => plural == "persistentvolumeclaims",
    };
    if limited && resource.group.is_empty() {
        limits::check(&objects(server.storage.cache(), "limitranges", namespace), resource, new)?;
    }
    if let (true, Some(old)) = (resource.is("", "persistentvolumeclaims"), old) {
        classes::growth(server.storage.cache(), old, new)
            .map_err(|why| Failure::forbidden(resource, text(new, "/metadata/name"), why))?;
    }
    server.quotas.check(server, resource, namespace, new, old).await
}

fn objects(cache: &Cache, collection: &str, namespace: &str) -> Vec<Value> {
    let snapshot = cache.snapshot(&format!("{collection}/{namespace}/"));
    snapshot.objects.iter().filter_map(|(_, bytes)| serde_json::from_slice(bytes).ok()).collect()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
