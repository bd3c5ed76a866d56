//! What is decided about an object by others: limits and quotas of its namespace.
//!
//! [`prepare`] fills in what limits say, before the object is validated; [`check`] refuses what exceeds
//! them, afterwards. Both read the cache, and neither costs anything where nobody has set a limit.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use crate::catalogue::Resource;
use crate::server::Server;
use crate::status::Failure;
use crate::storage::Cache;

mod limits;
mod priority;
mod quota;
mod usage;

pub(crate) use quota::{Quotas, run};

/// Held until the write is in the cache, where the next one looks.
pub(crate) type Turn = OwnedMutexGuard<()>;

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
